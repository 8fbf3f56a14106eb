--- Coroutines and protected calls. In PUC Lua 5.1 no coroutine can yield inside a pcall. The
-- package coxpcall makes that possible: it runs the function in a coroutine of its own.
local CHUNK = require("etcdlock.check").CHUNK

local M = {}

local running = coroutine.running

--- True if a coroutine can yield inside pcall.
M.can_yield_in_pcall = _VERSION ~= "Lua 5.1" or rawget(_G, "jit") ~= nil

-- The module coxpcall if it is needed and installed; else nil. Loaded here, because an error of a
-- debug hook in a later `require` would make the module unusable.
local coxpcall
if not M.can_yield_in_pcall then
  local is_found, module = pcall(require, "coxpcall")
  coxpcall = is_found and module or nil
end

--- As pcall, but `fn` may yield if that is possible.
function M.pcall(fn, ...)
  if coxpcall and coroutine.running() then
    return coxpcall.pcall(fn, ...)
  end
  return pcall(fn, ...)
end

--- Returns the running coroutine; nil in the main coroutine. In a function that coxpcall runs,
-- returns the coroutine that has called coxpcall, because event loops know only that one.
function M.running()
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
  if coxpcall and coroutine.running() then
    return coxpcall.xpcall(fn, function(trace, err)
      -- If the error is an object, `trace` is this object, because coxpcall makes tracebacks only
      -- for errors that are strings.
      return handler(err, type(trace) == "string" and trace or describe_error(err))
    end)
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

-- Gets the results of pcall. If pcall has succeeded, returns its results. Otherwise closes `call`
-- and raises the error again.
local function conclude(call, ok, ...)
  if ok then
    return ...
  end
  call:__close()
  error((...), 0)
end

-- Calls way(call, fn, ...) and returns the results. If `way` raises an error, or its coroutine is
-- closed, calls call:__close(), except in a coroutine of Lua 5.1. In Lua 5.4 `call` is a
-- to-be-closed variable, so no pcall is needed: an error passes through unchanged, and its stack
-- still exists in the handler of an outer xpcall. There are two such variables, because an error of
-- a debug hook may end the first __close. `load` compiles this function, because `<close>` is a
-- syntax error before Lua 5.4.
local call_and_close = coroutine.close and load([[
  return function(way, call, fn, ...)
    local second <close> = call
    local first <close> = call
    return way(call, fn, ...)
  end
]], CHUNK)() or function(way, call, fn, ...)
  if not M.can_yield_in_pcall and running() then
    return way(call, fn, ...) -- call:begin must be able to yield
  end
  return conclude(call, pcall(way, call, fn, ...))
end

-- Ends the call after `fn` has returned the further arguments, and returns them after true.
local function leave(call, ...)
  call:leave()
  return true, ...
end

local function call_plainly(call, fn, ...)
  local arg, message, code = call:begin(...)
  if not arg then
    return arg, message, code
  end
  call:enter()
  return leave(call, fn(arg))
end

-- Gets the results of xpcall. If `fn` has returned, returns true and its results. Otherwise closes
-- `call`, reports the error, and raises it again.
local function finish(call, ok, ...)
  if ok then
    return ...
  end
  local err, trace = (...), call.trace
  call:__close()
  if trace then
    last_traceback = trace
    call:report(trace, err)
  end
  raised_again[1] = err
  error(err, 0)
end

local function call_and_catch(call, fn, ...)
  local arg, message, code = call:begin(...)
  if not arg then
    return arg, message, code
  end
  local function within()
    call:enter(within)
    return leave(call, fn(arg)) -- not fn(arg), a tail call, which would take `within` off the stack
  end
  raised_again[1] = nil
  return finish(call, call_protected(within, function(err, trace)
    local is_new = err == nil or not rawequal(err, raised_again[1])
    -- A field, because other coroutines may run, and call this function, before call_protected
    -- returns.
    call.trace = is_new and trace or nil
    return err
  end))
end

--- Runs `fn` between the beginning and the end of `call`, a table with a metatable that has the
-- functions below. Returns true and the results of `fn`; or the results of call:begin(...) if
-- the first one is false or nil.
--   begin(call, ...)              called first. Returns the argument of `fn`. It may wait
--   enter(call, within)           called just before `fn`. The function `within` is on the stack as
--                                 long as `fn` runs; nil in the main coroutine of Lua 5.4
--   leave(call)                   called after `fn` has returned. It must not wait
--   __close(call)                 called in place of `leave` if an error is raised anywhere, or (in
--                                 Lua 5.4) the coroutine is closed; in Lua 5.4 also called after
--                                 `leave`. Does nothing after a complete `leave`
--   report(call, traceback, err)  see below
-- A debug hook may raise an error in each instruction of Lua code (Ctrl-C, a limit of
-- instructions), also in these functions. After an incomplete `leave` or `__close`, `__close` is
-- called again. So after one such error, `call` is ended completely. Exceptions, in a coroutine of
-- Lua 5.1: after an error in `begin`, `__close` is not called; after an error of `fn`, only once.
--
-- An error of `fn` is raised again, as the same object. If that loses the traceback of the error,
-- call:report(traceback, error) is called first, except if a nested call_with_cleanup has already
-- reported the same error.
function M.call_with_cleanup(call, fn, ...)
  local _, is_main = running()
  -- If a coroutine ends by an error, Lua closes the to-be-closed variables only when the program
  -- closes the coroutine, and event loops do not do that. So call_and_catch must catch the error.
  local way = coroutine.close and is_main and call_plainly or call_and_catch
  return call_and_close(way, call, fn, ...)
end

return M
