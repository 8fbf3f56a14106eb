--- Which event loop runs here, if any: how a wait is to be waited for.
--
-- A loop is a table with two functions:
--   is_here(hub)          may the running coroutine wait by yielding to this
--                         loop? hub.loop is what connect's `loop` named
--   wait(wait, seconds)   yields until hub:deliver() wakes this wait, or
--                         `seconds` have passed (nil: no limit); may return
--                         earlier; message, code if it can't. It parks the wait
--                         in wait.hub, has wait.arm(id) called, watches
--                         hub.core:wake_fd() as long as waits are parked in this
--                         loop, calls hub:deliver() when that is readable, and
--                         leaves the hub at the end: by wait.leave, which it
--                         sets meanwhile, and which Lua 5.4 calls if it closes
--                         the coroutine. With hub:on_close it stops watching a
--                         descriptor that is about to be closed.
-- Another loop is another such file and a line here.
local core = require "etcdlock.core"

local M = {}

-- By the module that must have been loaded for it to run.
local LOOPS = {
  { "cqueues", "etcdlock.loop.cqueues" },
  { "copas", "etcdlock.loop.copas" },
  { "luv", "etcdlock.loop.luv" },
}

local function in_nginx()
  local ngx = rawget(_G, "ngx")
  return type(ngx) == "table" and ngx.get_phase and ngx.socket and true or false
end

local function loop_here(hub)
  for _, entry in ipairs(LOOPS) do
    if package.loaded[entry[1]] then
      local loop = require(entry[2])
      if loop.is_here(hub) then
        return loop
      end
    end
  end
end

--- Is it too early to connect? message, code if so.
function M.too_early()
  if in_nginx() then
    return require("etcdlock.loop.nginx").too_early()
  end
end

--- The loop that the running coroutine can wait in, nil if waiting blocks.
function M.current(hub)
  if hub.loop == "none" then
    return nil
  end
  if in_nginx() then
    local nginx = require "etcdlock.loop.nginx"
    return nginx.is_here() and nginx or nil
  end
  local loop = loop_here(hub)
  return loop and core.yieldable() and loop or nil
end

--- Would a wait here stop a server, or a loop, that must go on? message, code if
-- so.
function M.refusal(hub)
  if hub.loop == "none" then
    return nil
  elseif in_nginx() then
    return require("etcdlock.loop.nginx").refusal()
  elseif not core.yieldable() and loop_here(hub) then
    return "waiting would stop the event loop here: a C function that can't be left is on the"
      .. " stack, such as table.sort or, in Lua 5.1, pcall", "context"
  end
end

-- In nginx a lock ends with the request that waited for it: the two are tied by
-- a leash, a table with `lock` (the core's) and, once tied, `link`.

--- What a hold belongs to besides its owner, if to anything: nginx's request.
function M.place()
  if in_nginx() then
    return require("etcdlock.loop.nginx").request()
  end
end

--- Does this hold belong to something that runs elsewhere or has ended? `owner`
-- is who took it, in `place`.
function M.is_elsewhere(leash, owner, place)
  if not in_nginx() then
    return false
  end
  local nginx = require "etcdlock.loop.nginx"
  -- All phases of a request run in one coroutine, which then runs others.
  if leash and leash.link then
    return not nginx.is_in_hand(leash)
      or type(owner) == "thread" and leash.phase ~= nginx.phase()
  end
  return type(owner) == "thread" or place == nil or place ~= nginx.request()
end

--- A lock that was held, or waited for, is not any more.
function M.unleash(hub, leash)
  if leash and leash.link then
    require("etcdlock.loop.nginx").unleash(hub, leash)
  end
end

return M
