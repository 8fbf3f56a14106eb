--- Coroutines and protected calls. In PUC Lua 5.1 no coroutine can yield inside a pcall. The
-- package coxpcall makes that possible: it runs the function in a coroutine of its own.
local M = {}

--- True if a coroutine can yield inside pcall.
M.can_yield_in_pcall = _VERSION ~= "Lua 5.1" or rawget(_G, "jit") ~= nil

--- Returns the running coroutine as its event loop knows it, which is not the one that coxpcall
-- created; nil in the main coroutine.
function M.running()
  local coxpcall = not M.can_yield_in_pcall and package.loaded.coxpcall
  local thread, is_main = (coxpcall and coxpcall.running or coroutine.running)()
  return not is_main and thread or nil
end

--- Returns true if coxpcall created the running coroutine.
function M.is_in_coxpcall()
  return not M.can_yield_in_pcall and coroutine.running() ~= M.running()
end

-- Returns the text of an error. An error in the handler of xpcall would replace the error, so an
-- error object whose __tostring fails is named by its type.
local function describe_error(err)
  local ok, text = pcall(tostring, err)
  return ok and type(text) == "string" and text or string.format("(error object: a %s)", type(err))
end

-- Calls xpcall(fn, handler), or coxpcall's if only that allows `fn` to yield. Calls handler with
-- the error and a traceback.
local function call_protected(fn, handler)
  if not M.can_yield_in_pcall and coroutine.running() then
    local is_found, coxpcall = pcall(require, "coxpcall")
    if is_found then
      return coxpcall.xpcall(fn, function(trace, err)
        -- For an error object, coxpcall has no traceback.
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
-- At 1, the error that call_and_catch has raised again last. The traceback of its new place is
-- useless. Weak, because an error object may keep locks and more alive.
local raised_again = setmetatable({}, { __mode = "v" })

--- Returns the traceback of the last error in call_with_cleanup, nil if there was none. Needed
-- where the stack no longer exists when the error is caught.
function M.get_traceback()
  return last_traceback
end

-- Calls call(...) and then cleanup(). With a to-be-closed variable the error passes through
-- unchanged, and the stack still exists when it is caught. Compiled here because the syntax is an
-- error before Lua 5.4.
local call_and_close = _VERSION == "Lua 5.4" and load [[
  return function(cleanup, call, ...)
    local guard <close> = setmetatable({}, { __close = cleanup })
    return (call(...))
  end
]]()

local function call_and_catch(cleanup, fn, on_error)
  local trace -- of a new error; local, because other coroutines may run before xpcall returns
  raised_again[1] = nil
  local ok, result = call_protected(fn, function(err, new_trace)
    local is_new = err == nil or not rawequal(err, raised_again[1])
    trace = is_new and new_trace or nil
    return err
  end)
  last_traceback = trace or last_traceback
  cleanup()
  if not ok then
    if trace then
      on_error(trace, result)
    end
    raised_again[1] = result
    error(result, 0)
  end
  return result
end

local function call_once(fn)
  local is_called
  return function()
    if not is_called then
      is_called = true
      fn()
    end
  end
end

--- Returns the first result of fn(), and calls cleanup() when `fn` ends: it returns, raises an
-- error, or (in Lua 5.4) its coroutine is closed. An error of `fn` is raised again, the same
-- object. If its traceback is lost by that, calls on_error(traceback, error) before, unless a call
-- within `fn` has done so. `cleanup` and `on_error` must not raise.
function M.call_with_cleanup(cleanup, fn, on_error)
  if not call_and_close then
    return call_and_catch(cleanup, fn, on_error)
  elseif not M.running() then
    return call_and_close(cleanup, fn)
  end
  -- If a coroutine ends by an error, Lua closes its variables only when the coroutine is closed,
  -- and event loops do not do that. So the error must be caught here.
  cleanup = call_once(cleanup)
  return call_and_close(cleanup, call_and_catch, cleanup, fn, on_error)
end

return M
