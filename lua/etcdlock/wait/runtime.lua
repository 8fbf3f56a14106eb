--- What Lua runs in: nginx, or a program of its own. These are the functions for a program of its
-- own; nginx.lua has the same functions for nginx.
--
-- In nginx a lock ends with the request that has taken it, and an owner is known in one request
-- only. A binding connects a lock with its request: a table that is `binding` of a wait and
-- `_binding` of a lock. Elsewhere there are no bindings.
local ngx = rawget(_G, "ngx")
if type(ngx) == "table" and ngx.get_phase and ngx.socket then
  return require "etcdlock.wait.nginx"
end

local loop = require "etcdlock.wait.loop"

local M = {
  --- Seconds that a lock call waits if neither the call nor connect has a `timeout`; nil: no limit.
  DEFAULT_TIMEOUT = nil,
  --- Returns the loop in which the running coroutine can wait; nil if a wait blocks.
  loop = loop.current,
  --- Returns message, code if a wait here would stop an event loop or an nginx worker.
  refusal = loop.refusal,
  --- True if Lua code does not see all variables of the environment.
  hides_environment = false,
}

--- Returns message, code if no client can be connected yet.
function M.too_early() end

--- Returns message, code if the code that runs here is about to end, and may take no lock and wait
-- for none.
function M.leaving() end

--- Returns the binding of a core lock to the request that runs here; nil outside nginx.
function M.bind() end

--- Records that the lock of a binding, which is not nil, is held.
function M.share() end

--- Returns whether the request that runs here still waits for the lock of this binding, which is
-- not decided yet.
function M.is_waiting()
  return true
end

--- Records that the lock of this binding is not held, or waited for, any more.
function M.unbind() end

--- Ends the core lock of this binding if its request has ended.
function M.notice_end() end

--- Returns whether the owner of this hold may take the lock again here.
function M.is_reentered()
  return true
end

--- Returns whether the hold was taken in an earlier phase of the request that runs here.
function M.is_past()
  return false
end

--- Returns what is_cut_off needs to know of a function that begins to run under a lock.
function M.run() end

--- Returns whether the function of the `with_lock` of this hold was aborted (ngx.exit, ngx.exec or
-- a killed light thread): it has neither returned nor raised an error.
function M.is_cut_off()
  return false
end

--- Records a core client that was just made.
function M.connected() end

--- Closes a core client within `seconds`.
function M.close(core_client, seconds)
  core_client:close(seconds)
end

--- Writes a message for which connect has no `log`.
function M.log(message)
  io.stderr:write(message, "\n")
end

--- Writes a message about the program, for which connect has no `log`; `is_error`: about an error.
-- Only in nginx: elsewhere, standard error belongs to the program.
function M.advise() end

--- Returns whether the on_lost handlers of this lock may be called here.
function M.is_told()
  return true
end

return M
