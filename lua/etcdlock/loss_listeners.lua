--- The listeners of `lock:on_lost` of one client's locks. A later call of the client calls them;
-- they never run by themselves. A waiter is a coroutine that waits for something else and is woken
-- to call them: an object with a method `wake`.
local runtime = require "etcdlock.wait.runtime"

local LossListeners = {}
LossListeners.__index = LossListeners

function LossListeners.new(wakeups)
  return setmetatable({
    _wakeups = wakeups,
    _waiters = {}, -- set of those that wait now
    --- Lock with listeners -> number; the order of the numbers is that of their first listeners.
    locks = setmetatable({}, { __mode = "k" }),
    _last_number = 0,
    --- True if a loss may have been reported since the last call_due.
    has_losses = false,
  }, LossListeners)
end

-- Returns true if the lock was lost and its listeners were not called yet.
local function is_due(lock)
  lock:_left() -- detects an expiry that the I/O thread has not noticed yet
  local reason = lock._listeners and lock._core:loss()
  return reason and reason ~= "closed"
end

-- Calls all listeners of the locks in the list `due`. Afterwards raises the first error of a
-- listener.
local function call_listeners(self, due)
  local is_failed, failure
  for _, lock in ipairs(due) do
    -- If a listener of another lock has made a call that ran these, there are none left.
    local listeners, reason = lock._listeners or {}, lock._core:loss()
    lock._listeners = nil
    self.locks[lock] = nil
    for _, listener in ipairs(listeners) do
      local ok, err = pcall(listener, lock, reason)
      if not ok and not is_failed then
        is_failed, failure = true, err
      end
    end
  end
  if is_failed then
    error(failure, 0)
  end
end

--- Calls the listeners of all lost locks, in the order of the locks' first listeners. In nginx,
-- those of another request's locks are not called. Raises the first error of a listener, after all
-- have run.
function LossListeners:call_due()
  self.has_losses = false
  if next(self.locks) == nil then
    return
  end
  local due, numbers = {}, {}
  for lock, number in pairs(self.locks) do
    if runtime.is_told(lock) and is_due(lock) then
      due[#due + 1] = lock
      numbers[lock] = number
    end
  end
  table.sort(due, function(a, b)
    return numbers[a] < numbers[b]
  end)
  call_listeners(self, due)
end

--- Adds a listener, a function (lock, reason). If the lock is lost already, calls it at once.
function LossListeners:add(lock, listener)
  lock._listeners = lock._listeners or {}
  table.insert(lock._listeners, listener)
  if not self.locks[lock] then
    self._last_number = self._last_number + 1
    self.locks[lock] = self._last_number
  end
  if is_due(lock) then
    call_listeners(self, { lock })
  end
end

--- Disarms the wake-up for the loss of a lock that is about to be released: its end is no loss.
function LossListeners:disarm(lock)
  if lock._loss_number then
    self._wakeups:forget(lock._loss_number)
    self._wakeups.core:end_wait(lock._loss_number, lock._core, "ended")
    lock._loss_number = nil
  end
end

--- Removes a lock that was released, unless it was lost before and its listeners are due.
function LossListeners:remove(lock, was_lost)
  if was_lost then
    self.has_losses = true -- disarm may have dropped the wake-up for this loss
  else
    self.locks[lock] = nil
  end
end

--- Wakes all waiters, because the core has reported a loss. One waiter is not enough: its coroutine
-- may have been dropped.
function LossListeners:wake()
  self.has_losses = true
  for waiter in pairs(self._waiters) do
    waiter:wake()
  end
end

-- Arms a wake-up for the loss of a lock.
local function arm(self, lock)
  if lock._loss_number then
    return
  end
  local number, is_pending = self._wakeups.core:begin_wait(lock._core, "ended")
  lock._loss_number = number
  if number and is_pending then
    self._wakeups:expect(number, self)
  else
    self.has_losses = true -- the lock has ended already, or the client is closed
  end
end

--- Adds a waiter, whose method `wake` is called at the next loss, until remove_waiter. Returns
-- false, and does not add it, if a loss was reported already: then call_due is to be called first.
function LossListeners:add_waiter(waiter)
  for lock in pairs(self.locks) do
    arm(self, lock)
  end
  if not self.has_losses then
    self._waiters[waiter] = true
  end
  return not self.has_losses
end

--- Removes a waiter.
function LossListeners:remove_waiter(waiter)
  self._waiters[waiter] = nil
end

return LossListeners
