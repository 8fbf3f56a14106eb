--- Runs a function and calls `finish` when it ends in any way: returns, raises
-- or has its coroutine closed.
local coroutines = require "etcdlock.coroutines"

local M = {}

local last_traceback

--- The traceback of the last error that went through such a run, for where
-- it can't be had any more by whoever catches the error.
function M.traceback()
  return last_traceback
end

-- A to-be-closed variable lets the error pass untouched, with its stack still
-- there for whoever catches it. Compiled here because it is a syntax error
-- before Lua 5.4.
local with_close = _VERSION == "Lua 5.4" and load [[
  return function(finish, way, ...)
    local guard <close> = setmetatable({}, { __close = finish })
    return (way(...))
  end
]]()

local function note_traceback(err, trace)
  last_traceback = trace
  return err
end

local function with_pcall(finish, fn)
  local ok, result = coroutines.xpcall(fn, note_traceback)
  finish()
  if not ok then
    error(result, 0)
  end
  return result
end

local function once(finish)
  local done
  return function()
    if not done then
      done = true
      finish()
    end
  end
end

--- Returns the first result of fn(). An error of fn is raised again, the same object.
-- `finish` must not raise.
function M.run(finish, fn)
  if not with_close then
    return with_pcall(finish, fn)
  elseif not coroutines.running() then
    return with_close(finish, fn)
  end
  -- A coroutine that ends by an error leaves its variables open, unless somebody
  -- closes it, and event loops don't.
  finish = once(finish)
  return with_close(finish, with_pcall, finish, fn)
end

return M
