--- Coroutines and protected calls. In PUC Lua 5.1 no coroutine can yield inside a pcall. The
-- package coxpcall makes that possible: it runs the function in a coroutine of its own.
local CHUNK = require("etcdlock.check").CHUNK

local M = {}

local running = coroutine.running
local unpack_list = table.unpack or unpack -- luacheck: ignore unpack

--- True if a coroutine can yield inside pcall.
M.can_yield_in_pcall = _VERSION ~= "Lua 5.1" or rawget(_G, "jit") ~= nil

--- Returns the running coroutine; nil in the main coroutine. In a function that coxpcall runs,
-- returns the coroutine that has called coxpcall, because event loops know only that one.
function M.running()
  local coxpcall = not M.can_yield_in_pcall and package.loaded.coxpcall
  local thread, is_main = (coxpcall and coxpcall.running or coroutine.running)()
  return not is_main and thread or nil
end

--- Returns true if coxpcall created the running coroutine.
function M.is_in_coxpcall()
  return not M.can_yield_in_pcall and coroutine.running() ~= M.running()
end

-- Returns the text of the error `err`, for the handler of xpcall. If __tostring of an error object
-- fails, returns the type of the object, because an error in the handler would replace `err`.
local function describe_error(err)
  local ok, text = pcall(tostring, err)
  return ok and type(text) == "string" and text or string.format("(error object: a %s)", type(err))
end

-- Calls `fn` by xpcall and returns the results of xpcall. Uses the xpcall of coxpcall where only
-- that one allows `fn` to yield. If `fn` raises an error, calls handler(error, traceback).
local function call_protected(fn, handler)
  if not M.can_yield_in_pcall and coroutine.running() then
    local is_found, coxpcall = pcall(require, "coxpcall")
    if is_found then
      return coxpcall.xpcall(fn, function(trace, err)
        -- If the error is an object, `trace` is this object, because coxpcall makes tracebacks only
        -- for errors that are strings.
        return handler(err, type(trace) == "string" and trace or describe_error(err))
      end)
    end
  end
  return xpcall(fn, function(err)
    return handler(err, debug.traceback(describe_error(err), 2))
  end)
end

-- ---- cleanup ----

local last_traceback
-- raised_again[1] is the last error that call_and_catch has raised again. If an outer
-- call_and_catch gets the same error, it ignores the traceback, which shows only the place where
-- the error was raised again. The reference is weak, because an error object may keep locks and
-- other objects alive.
local raised_again = setmetatable({}, { __mode = "v" })

--- Returns the traceback of the last error that call_with_cleanup has caught and raised again; nil
-- if there was none. The program needs it because the stack of the original error no longer exists
-- when the program catches the error.
function M.get_traceback()
  return last_traceback
end

-- Calls way(call, fn, arg) and returns the results. `call` is a to-be-closed variable, so no pcall
-- is needed: an error passes through unchanged, and its stack still exists in the handler of an
-- outer xpcall. `load` compiles this function, because `<close>` is a syntax error before Lua 5.4.
local call_and_close = coroutine.close and load([[
  return function(way, call, fn, arg)
    local guarded <close> = call
    return way(guarded, fn, arg)
  end
]], CHUNK)()

local function call_plainly(call, fn, arg)
  return call:finish(fn(arg))
end

local function pack(...)
  return { n = select("#", ...), ... }
end

local function call_and_catch(call, fn, arg)
  -- Traceback of an error that is raised for the first time. A local variable, because other
  -- coroutines may run, and call this function, before call_protected returns.
  local trace, results
  -- `results` prevents a tail call, which would take `within` off the stack.
  local function within()
    results = pack(fn(arg))
  end
  raised_again[1] = nil
  call:begin(within)
  local ok, result = call_protected(within, function(err, new_trace)
    local is_new = err == nil or not rawequal(err, raised_again[1])
    trace = is_new and new_trace or nil
    return err
  end)
  last_traceback = trace or last_traceback
  if ok then
    return call:finish(unpack_list(results, 1, results.n))
  end
  call:__close()
  if trace then
    call:report(trace, result)
  end
  raised_again[1] = result
  error(result, 0)
end

--- Calls fn(arg), and passes its results to call:finish, whose results it returns. If `fn` raises
-- an error or (in Lua 5.4) its coroutine is closed, calls call:__close() instead. `call` is a table
-- with a metatable that has these functions, none of which may raise an error:
--   finish(call, ...)             see above
--   __close(call)                 may be called again, and after `finish`. Then it does nothing
--   begin(call, within)           not in the main coroutine of Lua 5.4: called before `fn`. The
--                                 function `within` is on the stack as long as `fn` runs
--   report(call, traceback, err)  see below
-- An error of `fn` is raised again, as the same object. If that loses the traceback of the error,
-- call:report(traceback, error) is called first, except if a nested call_with_cleanup has already
-- reported the same error.
function M.call_with_cleanup(call, fn, arg)
  local _, is_main = running()
  if not call_and_close then
    return call_and_catch(call, fn, arg)
  elseif is_main then
    return call_and_close(call_plainly, call, fn, arg)
  end
  -- If a coroutine ends by an error, Lua closes the to-be-closed variables only when the program
  -- closes the coroutine, and event loops do not do that. So call_and_catch must catch the error.
  return call_and_close(call_and_catch, call, fn, arg)
end

return M
