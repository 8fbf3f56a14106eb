--- Which event loop runs here, if any. Another loop is another file, made with
-- loop.lua, and a line here.
local core = require "etcdlock.core"

local M = {}

-- By the module that must have been loaded for it to run. `is_named`: it can't
-- always tell whether it runs, so connect's `loop` may say so.
local LOOPS = {
  { name = "cqueues" },
  { name = "copas", is_named = true },
  { name = "luv", is_named = true },
}

-- Asked several times for each lock.
local function find(chosen)
  local loaded = package.loaded
  for i = 1, #LOOPS do
    local entry = LOOPS[i]
    if loaded[entry.name] then
      local loop = entry.loop
      if not loop then
        loop = require("etcdlock.wait." .. entry.name)
        entry.loop = loop
      end
      if loop.is_here(chosen) then
        return loop
      end
    end
  end
end

--- What connect's `loop` may be, a list.
function M.choices()
  local names = { "none" }
  for _, entry in ipairs(LOOPS) do
    if entry.is_named then
      table.insert(names, 1, entry.name)
    end
  end
  return names
end

--- The loop that the running coroutine can wait in, nil if waiting blocks.
-- `chosen` is what connect's `loop` named, if it did.
function M.current(chosen)
  local loop = chosen ~= "none" and find(chosen)
  return loop and core.yieldable() and loop or nil
end

--- Would a wait here stop a loop that must go on? message, code if so.
function M.refusal(chosen)
  if chosen ~= "none" and not core.yieldable() and find(chosen) then
    return "waiting would stop the event loop here: a C function that can't be left is on the"
      .. " stack, such as table.sort or, in Lua 5.1, pcall", "context"
  end
end

return M
