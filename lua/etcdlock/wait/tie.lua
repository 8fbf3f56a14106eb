--- What ties a lock to the request of nginx that has taken it: `link`, the connection of
-- its wait (nginx.lua), which ends with the request, where it waited; and `scope` and
-- `phase`, which tell in which part of the request that was.
local M = {}

local ngx = rawget(_G, "ngx")

-- The phases that come one after the other in a request. The others run within them.
local ORDER = { server_rewrite = 1, set = 2, rewrite = 3, access = 4, preread = 4, content = 5 }

--- Returns the running request's ngx.ctx, which no other request has; nil outside a request. An
-- internal redirect (ngx.exec, error_page) begins a new ngx.ctx in the same request.
function M.scope()
  local ok, ctx = pcall(function()
    return ngx.ctx
  end)
  return ok and ctx or nil
end

--- A tie of the running request.
function M.new(core_lock)
  return { core_lock = core_lock, scope = M.scope(), phase = ngx.get_phase() }
end

function M.is_tied(lock)
  return lock._tie ~= nil and lock._tie.link ~= nil
end

--- Can the running request use this connection, that is: has it made it? Another one's
-- socket raises an error, that of a request that has ended is closed.
function M.is_usable(link)
  local socket = link.socket
  return socket:getreusedtimes() ~= nil and (pcall(socket.receive, socket, 0))
end

--- Is this tie's connection one of the running request, and open? The tie may be that of another
-- request, with an owner of the same name. And nginx closes the connection if it ends the light
-- thread that waits.
function M.is_here(tie)
  return tie ~= nil and tie.link ~= nil and M.is_usable(tie.link)
end

--- Is it a lock of the running request?
local function is_own(lock)
  local tie = lock._tie
  if M.is_tied(lock) then
    return M.is_usable(tie.link)
  end
  return tie ~= nil and tie.scope ~= nil and tie.scope == M.scope()
end

--- Is the part of the running request over in which it was tied?
local function is_over(tie)
  local began, now = ORDER[tie.phase], ORDER[ngx.get_phase()]
  if began and now and began < now then
    return true
  end
  -- Programs may set ngx.ctx, too.
  return tie.scope ~= M.scope() and ngx.req.is_internal()
end

--- Is it one of the running request, and for a coroutine in the part of it that runs? All
-- phases of a request run in one coroutine, which then runs others.
function M.is_reentered(lock)
  if type(lock._acquisition.owner) ~= "thread" then
    return is_own(lock)
  end
  return M.is_here(lock._tie) and not is_over(lock._tie)
end

function M.is_told(lock)
  return not M.is_tied(lock) or M.is_usable(lock._tie.link)
end

--- Was it taken in a part of the running request that is over?
function M.is_past(lock)
  return is_own(lock) and is_over(lock._tie)
end

--- A function that begins to run under a lock, in the running coroutine.
function M.run(within)
  return { coroutine = coroutine.running(), within = within }
end

local function is_on_stack(of, fn)
  local level = 0
  repeat
    local info = debug.getinfo(of, level, "f")
    if info and info.func == fn then
      return true
    end
    level = level + 1
  until not info
  return false
end

--- Has nginx ended the function of a with_lock of the running request? It tells nobody of
-- what ngx.exit, ngx.exec and ngx.thread.kill end; and what ran may run something else.
function M.is_cut_off(lock)
  local run = lock._run
  return is_own(lock)
    and (coroutine.status(run.coroutine) == "dead" or not is_on_stack(run.coroutine, run.within))
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
