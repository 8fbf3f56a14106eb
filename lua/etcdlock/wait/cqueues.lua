--- Waits in cqueues. In each controller, one coroutine of this module watches the client's
-- descriptor for all coroutines that wait. Each waiting coroutine waits on its own condition.
local cqueues = require "cqueues"
local condition = require "cqueues.condition"
local coroutines = require "etcdlock.coroutines"
local loop = require "etcdlock.wait.loop"

--- Returns the controller that has resumed the running coroutine; nil if none has. If another
-- coroutine of the program has resumed it, the result is nil, because then a yield returns to that
-- coroutine and not to the controller. (A coroutine of coxpcall is no obstacle: it passes what is
-- yielded to the controller.)
local function controller()
  local running, inside = cqueues.running()
  inside = inside or coroutines.is_in_coxpcall()
  return inside and running or nil
end

-- See Wakeups:watch in waits.lua.
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
    cqueues.cancel(stopped_fd) -- removes the descriptor: another file may get its number later
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
