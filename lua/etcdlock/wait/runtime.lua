--- The runtime: the functions that differ between nginx and any other Lua program. In nginx this
-- module returns nginx.lua, which has the same functions; the functions below are for any other
-- program.
--
-- In nginx a lock that was taken where code can wait ends with the request that has taken it, and
-- an owner counts within one request only. A binding is a table that connects a lock with its
-- request: the field `binding` of a wait and `_binding` of a lock. Outside nginx there are no
-- bindings.
local ngx = rawget(_G, "ngx")
if type(ngx) == "table" and ngx.get_phase and ngx.socket then
  return require "etcdlock.wait.nginx"
end

local loop = require "etcdlock.wait.loop"

local M = {
  --- Seconds for which a lock call waits if neither the call nor connect has a `timeout`; nil: no
  -- limit.
  DEFAULT_TIMEOUT = nil,
  --- Returns the event loop to which the running coroutine yields when it waits; nil if a wait
  -- blocks. Returns nil, message, code if a wait would stop an event loop or an nginx worker,
  -- because the running coroutine cannot yield.
  loop = loop.current,
  --- True if os.getenv does not see all environment variables, as in nginx.
  hides_environment = false,
  --- True if `log` writes to a log of nginx, not to the standard error of the program. A message
  -- about the program's own code, or about an end that the program has chosen, is written only in
  -- nginx.
  has_error_log = false,
}

--- Returns message, code if the program cannot make a client yet. Otherwise returns nil.
function M.too_early() end

--- Returns message, code if the running code must end soon, and so may neither take a lock nor wait
-- for one. Otherwise returns nil.
function M.leaving() end

--- Returns a new binding of a core lock to the running request; nil outside nginx.
function M.bind() end

--- Called when the lock of a binding is held. In nginx the lock then shares the connection of the
-- request's other locks. The binding is not nil.
function M.share() end

--- Returns true if the running request still waits for the lock of this binding. Called only while
-- the lock is neither granted nor refused.
function M.is_waiting()
  return true
end

--- Records that the lock of this binding is no longer held or waited for.
function M.unbind() end

--- Ends the core lock of a binding if the binding's request has ended.
function M.notice_end() end

--- Returns true if the owner of this hold may take the lock again in the running code.
function M.is_reentered()
  return true
end

--- Returns true if the hold was taken in an earlier phase of the running request.
function M.is_past()
  return false
end

--- Called just before a `with_lock` calls the program's function. Returns a record for is_cut_off
-- in nginx, nil elsewhere. The argument, used in nginx only, is the library's function that makes
-- the call: it is on the stack as long as the program's function runs.
function M.run() end

--- Returns true if the hold is of a `with_lock` whose function was aborted: by ngx.exit, ngx.exec
-- or the end of its light thread. Such a function neither returns nor raises an error.
function M.is_cut_off()
  return false
end

--- Records a new core client.
function M.connected() end

--- Closes a core client within `seconds`.
function M.close(core_client, seconds)
  core_client:close(seconds)
end

--- Writes the message of an event of a client without the option `log`, or of an error of the
-- function `log`. The second argument, used in nginx only, is true if the message is a warning.
function M.log(message)
  io.stderr:write(message, "\n")
end

--- Returns true if the running code may call the on_lost functions of this lock.
function M.is_told()
  return true
end

return M
