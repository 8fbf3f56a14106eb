--- The one place where etcdlock waits.
--
-- The core answers every wait within the time that it is given, so a wait is a
-- row of short slices: between two of them the interpreter runs, which is when
-- Ctrl-C (a debug hook) gets its turn.
local SLICE = 0.2 -- seconds

--- Calls poll(seconds) until its first result isn't nil, and returns all its
-- results. `between` is called after each slice that brought nothing. With
-- `limit` seconds it gives up and returns nil.
local function await(poll, between, limit)
  local left = limit or math.huge
  while true do
    local slice = left < SLICE and left or SLICE
    local a, b, c, d = poll(slice)
    left = left - slice
    if a ~= nil or left <= 0 then
      return a, b, c, d
    end
    between()
  end
end

return await
