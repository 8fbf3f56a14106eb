--- The kinds of waits, and the wake numbers of one client.
--
-- A wait is a table whose metatable is its kind. The kind has these fields:
--   event                the event that ends the wait; the argument of the core's begin_wait
--   poll(wait, seconds)  blocks until the event has occurred, up to `seconds`. Its first result is
--                        nil if the event has not occurred
--   give_up(wait)        called if an error or the end of the coroutine ends the wait; may be
--                        missing
--   hears_losses         true: if a lock is lost, the wait is interrupted to call on_lost handlers
--   ends_early           true: in an nginx timer the wait ends when the worker exits
-- The wait itself has these fields:
--   object       object of the core that the event belongs to
--   limit        seconds; nil: no limit
--   may_collect  true: a long blocking wait collects garbage once (see COLLECT_AFTER in init.lua)
--   binding      of the lock to its nginx request; nil elsewhere
--   wakeups, events, losses  of the client; `events` is false without a log and metrics, `losses`
--                            nil or false unless the kind hears_losses
--   waiter       the coroutine's Waiter (loop.lua), while it waits in an event loop
local runtime = require "etcdlock.wait.runtime"

local M = {}

-- ---- kinds ----

--- Ends a wait before its event has occurred.
function M.abandon(wait)
  local waiter = wait.waiter
  if waiter then
    wait.waiter = nil
    if not wait.wakeups.core:usable() then
      -- In a forked child the event loop may share its epoll set with the parent's loop: if the
      -- child stopped the watcher, the parent would not be woken any more. (The other reason why a
      -- client is not usable is close, which has stopped the watcher.)
      waiter.watcher = nil
    end
    waiter:end_wait(wait)
  end
  if wait.give_up then
    wait:give_up()
  end
end

-- Lua 5.4 can close a coroutine that waits.
local function close(wait)
  if not wait.has_returned then
    M.abandon(wait)
  end
end

--- Makes a kind. `method` is the object's method that blocks until the event has occurred.
local function new_kind(method, kind)
  function kind.poll(wait, seconds)
    local object = wait.object
    return object[method](object, seconds)
  end
  kind.__index, kind.__close = kind, close
  return kind
end

--- A lock is held, or its acquisition has failed.
M.Decided = new_kind("wait", {
  event = "decided",
  hears_losses = true,
  ends_early = true,
  give_up = function(wait)
    wait.object:release()
    runtime.unbind(wait.wakeups, wait.binding)
  end,
})

--- The key of a released lock is deleted in etcd.
M.Released = new_kind("wait_released", { event = "released" })

--- The hold of a lock has ended.
M.Ended = new_kind("wait_ended", { event = "ended", hears_losses = true, ends_early = true })

--- A transaction is answered.
M.Answered = new_kind("wait", { event = "answered", hears_losses = true })

--- All members have answered a status query.
M.AllAnswered = new_kind("wait", { event = "all_answered", hears_losses = true })

--- A watcher has unread changes, or has ended.
M.Changed = new_kind("wait_changed", { event = "changed", hears_losses = true, ends_early = true })

--- A watcher has ended.
M.Closed = new_kind("wait_closed", { event = "closed", hears_losses = true, ends_early = true })

-- ---- wake numbers ----

local Wakeups = {}
Wakeups.__index = Wakeups

--- Makes the wake numbers of a client of the core. `chosen` is the event loop that connect's
-- option `loop` names, `socket_dir` the option of that name; both may be nil.
function M.new(core_client, chosen, socket_dir)
  return setmetatable({
    core = core_client,
    chosen = chosen,
    socket_dir = socket_dir,
    _expected = {}, -- wake number -> waiter
    _pushed = {}, -- list of the numbers that were pushed and not delivered yet
    _is_delivering = false,
    -- Event loop (the argument `key` of Wakeups:watch) -> its Watcher. The keys are weak, so that a
    -- client does not keep an event loop alive.
    _watchers = setmetatable({}, { __mode = "k" }),
  }, Wakeups)
end

--- Has waiter:wake() called once when `number` is pushed. It must neither yield nor raise.
function Wakeups:expect(number, waiter)
  self._expected[number] = waiter
end

--- Undoes expect.
function Wakeups:forget(number)
  self._expected[number] = nil
end

--- Returns the descriptor that is readable while pushed numbers are not read; or nil, message,
-- code.
function Wakeups:fd()
  return self.core:wake_fd()
end

--- Wakes the waiters whose numbers were pushed. Called when the descriptor is readable.
function Wakeups:deliver()
  for _, number in ipairs(self.core:woken()) do
    self._pushed[#self._pushed + 1] = number
  end
  if self._is_delivering then
    return -- a waiter that is being woken has called this; the outer call wakes the others
  end
  self._is_delivering = true
  local i = 1
  while self._pushed[i] do
    local number = self._pushed[i]
    local waiter = self._expected[number]
    self._expected[number] = nil
    if waiter then
      waiter:wake()
    end
    i = i + 1
  end
  self._pushed = {}
  self._is_delivering = false
end

-- ---- watchers of the descriptor ----

--- One watcher of the descriptor in one event loop, shared by all waiters there. It does not
-- hold the loop: a loop that the program drops is collected, with the waits in it.
local Watcher = {}
Watcher.__index = Watcher

--- One waiter leaves. The last one stops the watcher.
function Watcher:leave()
  self.count = self.count - 1
  if self.count == 0 and not self.is_over then
    self.is_over = true
    self.stop(self.fd)
  end
end

--- Adds a waiter to the watcher of the event loop `key` and returns the watcher, which the waiter
-- must leave. For the first waiter it calls watch(fd, deliver), which has deliver() called
-- whenever the descriptor `fd` is readable. watch returns the function that stops that; this
-- function gets `fd` and must not hold `key`.
function Wakeups:watch(key, fd, watch)
  local watcher = self._watchers[key]
  if not watcher or watcher.is_over then
    watcher = setmetatable({ fd = fd, count = 0, is_over = false }, Watcher)
    watcher.stop = watch(fd, function()
      self:deliver()
    end)
    self._watchers[key] = watcher
  end
  watcher.count = watcher.count + 1
  return watcher
end

--- Closes the core's client within `seconds` and wakes all waiters, whose waits are over. The
-- watchers stop before the descriptor is closed: an event loop may remember its number.
function Wakeups:close(seconds)
  local is_usable = self.core:usable()
  for _, watcher in pairs(self._watchers) do
    if is_usable and not watcher.is_over then
      watcher.stop(watcher.fd)
    end
    watcher.is_over = true
  end
  runtime.close(self.core, seconds)
  self:deliver()
end

return M
