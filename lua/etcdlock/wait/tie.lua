--- What ties a lock to the request of nginx that has taken it: `link`, the connection of
-- its wait (nginx.lua), which ends with the request, where it waited; and `scope` and
-- `phase`, which tell in which part of the request that was.
local M = {}

local ngx = rawget(_G, "ngx")

-- The phases that come one after the other in a request. The others run within them.
local ORDER = { server_rewrite = 1, set = 2, rewrite = 3, access = 4, content = 5 }

--- The running request's alone; nil where there is none. An internal redirect (ngx.exec,
-- error_page) begins a new one in the same request.
local function scope()
  local ok, ctx = pcall(function()
    return ngx.ctx
  end)
  return ok and ctx or nil
end

--- A tie of the running request.
function M.new(core_lock)
  return { core_lock = core_lock, scope = scope(), phase = ngx.get_phase() }
end

function M.is_tied(lock)
  return lock._tie ~= nil and lock._tie.link ~= nil
end

--- Can the running request use this tie, that is: has it tied it? Another one's
-- socket raises an error, that of a request that has ended is closed.
function M.is_in_hand(tie)
  local socket = tie.link.socket
  return socket:getreusedtimes() ~= nil and (pcall(socket.receive, socket, 0))
end

--- Is it a lock of the running request?
local function is_own(lock)
  local tie = lock._tie
  if M.is_tied(lock) then
    return M.is_in_hand(tie)
  end
  return tie ~= nil and tie.scope ~= nil and tie.scope == scope()
end

--- Is it, and in the part of it that runs? All phases of a request run in one coroutine,
-- which then runs others.
function M.is_reentered(lock)
  if type(lock._owner) ~= "thread" then
    return is_own(lock)
  end
  local tie = lock._tie
  return M.is_tied(lock) and tie.phase == ngx.get_phase() and tie.scope == scope()
    and M.is_in_hand(tie)
end

function M.is_told(lock)
  return not M.is_tied(lock) or M.is_in_hand(lock._tie)
end

--- Is the part of the running request over in which it was tied?
local function is_over(tie)
  local began, now = ORDER[tie.phase], ORDER[ngx.get_phase()]
  return tie.scope ~= scope() or began ~= nil and now ~= nil and began < now
end

--- Was it taken in a part of the running request that is over?
function M.is_past(lock)
  return is_own(lock) and is_over(lock._tie)
end

--- Has nginx ended the coroutine `run` of the running request, in which it was taken?
-- Nobody is told when ngx.exit, ngx.exec or ngx.thread.kill do that.
function M.is_cut_off(lock, run)
  return is_own(lock) and (is_over(lock._tie) or coroutine.status(run) == "dead")
end

--- nginx ends a request's connections before it runs log_by_lua. Who asks there
-- shall hear of that at once, and not when the core has.
function M.notice_end(core_lock, tie)
  local link = tie and tie.link
  if link and not link.socket:getreusedtimes() then
    core_lock:outlive()
  end
end

return M
