--- Kinds of waits, by what they wait for: metatables with the methods that init.lua wants
-- of a wait.
local M = {}

--- Ends a wait before its time.
function M.abandon(wait)
  local park = wait.park
  if park then
    wait.park = nil
    park:leave()
  end
  if wait.give_up then
    wait:give_up()
  end
end

-- Lua 5.4 can close a coroutine that waits.
local function close(wait)
  if not wait.has_returned then
    M.abandon(wait)
  end
end

--- The kind with these methods: its waits have it as their metatable.
function M.new(methods)
  methods.__index, methods.__close = methods, close
  return methods
end

return M
