--- cqueues: one coroutine of each controller watches the client's descriptor
-- while others of it wait, each on a condition of its own.
local cqueues = require "cqueues"
local condition = require "cqueues.condition"
local protect = require "etcdlock.protect"

local M = {}

local watchers = setmetatable({}, { __mode = "k" }) -- controller -> hub -> watcher

--- The controller whose coroutine this is. Not for one that such a coroutine
-- runs itself: what that yields, its own caller gets. (coxpcall's passes it on.)
local function controller()
  local running, inside = cqueues.running()
  inside = inside or protect.is_inner()
  return inside and running or nil
end

function M.is_here()
  return controller() ~= nil
end

--- Ends with the last wait, so that the loop can end.
local function run(hub, watcher)
  while watcher.count > 0 and not watcher.closed do
    cqueues.poll(watcher, watcher.idle)
    hub:deliver()
  end
  if not watcher.closed then
    cqueues.cancel(watcher.pollfd) -- the number may be another's tomorrow
  end
end

local function watch(hub, running)
  local hubs = watchers[running] or {}
  watchers[running] = hubs
  local watcher = hubs[hub]
  if not watcher then
    watcher = {
      pollfd = hub.core:wake_fd(),
      events = "r",
      idle = condition.new(),
      count = 0,
    }
    hubs[hub] = watcher
    hub:on_close(watcher, function(fd)
      watcher.closed = true
      cqueues.cancel(fd)
    end)
    running:wrap(function()
      run(hub, watcher)
      hubs[hub] = nil
      hub:on_close(watcher, nil)
    end)
  end
  return watcher
end

function M.wait(wait, seconds)
  local hub, due, woken = wait.hub, condition.new(), false
  local id, message, code = hub:park(wait, function()
    woken = true
    due:signal()
  end)
  if not id then
    return message, code
  end
  local watcher
  function wait.leave()
    wait.leave = nil
    if hub:leave(id, watcher) then
      watcher.idle:signal()
    end
  end
  if wait.arm(id) then
    watcher = watch(hub, controller())
    watcher.count = watcher.count + 1
    if not woken then
      due:wait(seconds)
    end
  end
  wait.leave()
end

return M
