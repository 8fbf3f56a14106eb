--- What Lua runs in: nginx, or a program of its own. All that nginx needs is
-- asked of the host, which for a program of its own has the plain answers below.
--
-- In nginx a lock ends with the request that waited for it, and an owner is known in
-- one request only: a lock and its request are tied by a table (tie.lua), `tie` in a
-- wait and `_tie` in a lock.
local ngx = rawget(_G, "ngx")
if type(ngx) == "table" and ngx.get_phase and ngx.socket then
  return require "etcdlock.wait.nginx"
end

local loops = require "etcdlock.wait.loops"

local M = {
  --- The loop that the running coroutine can wait in, nil if waiting blocks.
  loop = loops.current,
  --- Would a wait here stop what must go on? message, code if so.
  refusal = loops.refusal,
}

--- Is it too early to connect? message, code if so.
function M.too_early() end

--- Is what runs here about to end, and not to take or await any lock? message, code
-- if so.
function M.leaving() end

--- What ties a core lock to what runs here, nil if nothing does.
function M.tie() end

--- The lock of this tie, which isn't nil, is held from now on.
function M.share() end

--- Does what runs here still wait for the lock of this tie, for which there is no verdict yet?
function M.is_waiting()
  return true
end

--- The lock of this tie is not held, or waited for, any more.
function M.untie() end

--- Has what a lock was tied to ended by now? Then so has the lock.
function M.notice_end() end

--- May the owner of this hold, who asks here, have it again?
function M.is_reentered()
  return true
end

--- Is this a hold of what runs here, taken in a part of it that is over?
function M.is_past()
  return false
end

--- What is to be known of a function that begins to run under a lock, for is_cut_off.
function M.run() end

--- Was the function of the with_lock that has this hold ended without a word?
function M.is_cut_off()
  return false
end

--- Has noticed a client that was just made, and is not closed.
function M.connected() end

--- Closes a core client, within so many seconds.
function M.close(core_client, seconds)
  core_client:close(seconds)
end

--- Where a message goes for which nobody has given another place.
function M.log(message)
  io.stderr:write(message, "\n")
end

--- May the handlers of this lock be called here?
function M.is_told()
  return true
end

return M
