--- Runs a function and calls `finish` when it ends in any way: returns, raises
-- or has its coroutine closed.
local M = {}

local last_traceback

--- The traceback of the last error that went through a guarded run, for the
-- Luas on which it can't be had any more where the error is caught.
function M.traceback()
  return last_traceback
end

local function pack(...)
  return { n = select("#", ...), ... }
end

-- A to-be-closed variable lets the error pass untouched, with its stack still
-- there for whoever catches it. Compiled here because it is a syntax error
-- before Lua 5.4.
local with_close = _VERSION == "Lua 5.4" and load [[
  local pack = ...
  return function(finish, fn, ...)
    local guard <close> = setmetatable({}, { __close = finish })
    return pack(fn(...))
  end
]](pack)

local function note_traceback(err)
  last_traceback = debug.traceback(type(err) == "string" and err or tostring(err), 2)
  return err
end

local function with_pcall(finish, fn, ...)
  local args, results = pack(...), nil
  local ok, err = xpcall(function()
    results = pack(fn((table.unpack or unpack)(args, 1, args.n))) -- luacheck: ignore unpack
  end, note_traceback)
  finish()
  if not ok then
    error(err, 0)
  end
  return results
end

--- Returns fn(...)'s results packed, with their number in n. An error of fn is
-- raised again, the same object. `finish` must not raise.
M.run = with_close or with_pcall

return M
