--- cqueues: one coroutine of each controller watches the client's descriptor
-- while others of it wait, each on a condition of its own.
local cqueues = require "cqueues"
local condition = require "cqueues.condition"
local coroutines = require "etcdlock.coroutines"
local loop = require "etcdlock.wait.loop"

--- The controller whose coroutine this is. Not for one that such a coroutine
-- runs itself: what that yields, its own caller gets. (coxpcall's passes it on.)
local function controller()
  local running, inside = cqueues.running()
  inside = inside or coroutines.is_in_coxpcall()
  return inside and running or nil
end

local function watch(fd, deliver)
  local watcher = { pollfd = fd, events = "r" }
  local stirred, is_over = condition.new(), false
  controller():wrap(function()
    while not is_over do
      cqueues.poll(watcher, stirred)
      deliver()
    end
  end)
  return function(its_fd)
    is_over = true
    stirred:signal()
    cqueues.cancel(its_fd) -- the number may be another's tomorrow
  end
end

return loop {
  is_here = function()
    return controller() ~= nil
  end,
  which = controller,
  suspend = function(park)
    park.due = condition.new()
    park.due:wait()
  end,
  wake = function(park)
    if park.due then
      park.due:signal()
    end
  end,
  watch = watch,
}
