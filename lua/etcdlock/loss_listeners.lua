--- The listeners of one client: the functions that the program has registered by `lock:on_lost`. A
-- listener never runs by itself: a later call of the same client runs it.
--
-- If coroutines of the client wait in an event loop (not for a release) when a lock is lost, they
-- are woken to run the listeners. In this file, a *waiter* is the object of such a coroutine:
-- Waiter in wait/loop.lua, with the method `wake`.
local runtime = require "etcdlock.wait.runtime"

local LossListeners = {}
LossListeners.__index = LossListeners

function LossListeners.new(wakeups)
  return setmetatable({
    _wakeups = wakeups,
    _waiters = {}, -- set of the waiters that are to be woken at the next loss
    --- Lock that has listeners -> number. A lock that got its first listener later has a larger
    -- number.
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
    -- A listener may call the client, and that call runs the listeners that are still in the lists.
    local listeners, reason = lock._listeners or {}, lock._core:loss()
    while listeners[1] do
      local ok, err = pcall(table.remove(listeners, 1), lock, reason)
      if not ok and not is_failed then
        is_failed, failure = true, err
      end
    end
    lock._listeners = nil
    self.locks[lock] = nil
  end
  if is_failed then
    error(failure, 0)
  end
end

--- Calls the listeners of all lost locks, in the order in which the locks got their first listener.
-- In nginx, skips the locks of other nginx requests. If listeners raise errors, raises the first
-- error after all listeners have run.
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

--- Adds `listener`, a function that is called with the lock and the reason of the loss. If the lock
-- is lost already, calls `listener` at once.
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

--- Undoes `arm` for a lock that is about to be released, because the end of a released hold is not
-- a loss.
function LossListeners:disarm(lock)
  local number = lock._loss_number
  lock._loss_number = nil -- first: if an error ends this call, `arm` can be called again
  self._wakeups:forget(number)
  self._wakeups.core:end_wait(number, lock._core, "ended")
end

--- Removes a lock that was released, unless it was lost before the release, because its listeners
-- have then still to be called.
function LossListeners:remove(lock)
  if lock._core:loss() then
    self.has_losses = true -- disarm may have dropped the wake-up for this loss
  else
    self.locks[lock] = nil
  end
end

--- Wakes all waiters, because the core has reported the end of a hold. It does not wake one waiter
-- only, because the program may have dropped the coroutine of that waiter.
function LossListeners:wake()
  self.has_losses = true
  for waiter in pairs(self._waiters) do
    waiter:wake()
  end
end

-- Has LossListeners:wake called when the hold of `lock` ends.
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

--- Adds a waiter and returns true: waiter:wake() is called at the next loss, unless remove_waiter
-- is called before. If `has_losses` is set, adds nothing and returns false, because the caller must
-- run call_due before it waits.
function LossListeners:add_waiter(waiter)
  for lock in pairs(self.locks) do
    arm(self, lock)
  end
  if not self.has_losses then
    self._waiters[waiter] = true
  end
  return not self.has_losses
end

function LossListeners:remove_waiter(waiter)
  self._waiters[waiter] = nil
end

return LossListeners
