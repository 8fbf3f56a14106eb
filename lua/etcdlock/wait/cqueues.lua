--- cqueues: in each controller, one coroutine watches the client's descriptor while others wait,
-- each on a condition of its own.
local cqueues = require "cqueues"
local condition = require "cqueues.condition"
local coroutines = require "etcdlock.coroutines"
local loop = require "etcdlock.wait.loop"

--- Returns the controller that runs this coroutine; nil if the coroutine runs inside another
-- coroutine of the controller: the resuming coroutine would get what it yields. (A coroutine of
-- coxpcall passes it on.)
local function controller()
  local running, inside = cqueues.running()
  inside = inside or coroutines.is_in_coxpcall()
  return inside and running or nil
end

local function watch(fd, deliver)
  local descriptor = { pollfd = fd, events = "r" }
  local stopping, is_over = condition.new(), false
  controller():wrap(function()
    while not is_over do
      cqueues.poll(descriptor, stopping)
      if not is_over then
        deliver()
      end
    end
  end)
  return function(stopped_fd)
    is_over = true
    stopping:signal()
    cqueues.cancel(stopped_fd) -- another file may get this number later
  end
end

return loop.new {
  is_here = function()
    return controller() ~= nil
  end,
  which = controller,
  suspend = function(waiter)
    waiter.condition = condition.new()
    waiter.condition:wait()
  end,
  wake = function(waiter)
    if waiter.condition then
      waiter.condition:signal()
    end
  end,
  watch = watch,
}
