--- The kinds of waits, and the wake numbers of one client.
--
-- A kind has these fields:
--   event         name of the event that ends the wait; an argument of the core's begin_wait
--   method        name of the object's method that blocks until the event has occurred, for at most
--                 the given seconds. Its first result is nil if the event has not occurred
--   give_up(client, object, binding)  only in the kind Decided. Called if an error, or the end of
--                 the coroutine, ends the wait; acquire.lua calls it for each failure
--   hears_losses  true: if a lock is lost, the wait is interrupted to call on_lost functions
--   ends_early    true: in an nginx timer the wait ends when the worker exits
-- A wait in an event loop is a table whose metatable is its kind. It has these fields:
--   client   the client
--   object   the core object (lock, transaction, watcher ...) whose event the wait is for
--   limit    seconds; nil: no limit
--   binding  connects the lock with its nginx request (runtime.lua); nil outside nginx
--   wakeups  the Wakeups of the client (below)
--   losses   the client's on_lost functions (loss_listeners.lua); nil or false if the kind does not
--            hear losses
--   waiter   the Waiter of the coroutine (loop.lua) while it waits; else nil
--   has_returned  true: the wait has ended without an error, so `close` does nothing
--
-- A wake number identifies one wait in an event loop. When the event of the wait occurs, or its
-- time is over, the core pushes the number into the client's wake queue. Then the event loop finds
-- the descriptor of the queue readable, and `deliver` wakes the waiter of each number.
-- In nginx the core's wake server takes the place of the queue: see nginx.lua.
local runtime = require "etcdlock.wait.runtime"

local M = {}

-- ---- kinds ----

--- Ends a wait that was interrupted before its event occurred.
function M.abandon(wait)
  local waiter = wait.waiter
  if waiter then
    wait.waiter = nil
    if not wait.wakeups.core:usable() then
      -- The client is not usable in a forked child. There the event loop may share its epoll set
      -- with the parent's loop, so the child does not stop the watcher: the parent would not be
      -- woken any more. (After close, the client is not usable either, but its watchers have
      -- stopped already.)
      waiter.watcher = nil
    end
    waiter:end_wait(wait)
  end
  if wait.give_up then
    wait.give_up(wait.client, wait.object, wait.binding)
  end
end

-- The kinds' metamethod __close. Lua 5.4 calls it when a wait returns, raises an error, or when a
-- program closes the coroutine that waits.
local function close(wait)
  if not wait.has_returned then
    M.abandon(wait)
  end
end

-- Calls the method of the wait's object for at most `seconds`.
local function poll(wait, seconds)
  local object = wait.object
  return object[wait.method](object, seconds)
end

-- Returns `kind`, completed with the metamethods and the method of its waits.
local function new_kind(kind)
  kind.__index, kind.__close, kind.poll = kind, close, poll
  return kind
end

--- A lock is held, or the request for it has failed.
M.Decided = new_kind {
  event = "decided",
  method = "wait",
  hears_losses = true,
  ends_early = true,
  give_up = function(client, core_lock, binding)
    core_lock:release()
    runtime.unbind(client._wakeups, binding)
  end,
}

--- The key of a released lock is deleted in etcd, or kept for another hold; or the release failed.
M.Released = new_kind { event = "released", method = "wait_released" }

--- The hold of a lock has ended.
M.Ended = new_kind {
  event = "ended", method = "wait_ended", hears_losses = true, ends_early = true,
}

--- A transaction is answered, or has failed.
M.Answered = new_kind { event = "answered", method = "wait", hears_losses = true }

--- All members have answered a status query, or failed.
M.AllAnswered = new_kind { event = "all_answered", method = "wait", hears_losses = true }

--- A watcher has unread changes, or has ended.
M.Changed = new_kind {
  event = "changed", method = "wait_changed", hears_losses = true, ends_early = true,
}

--- A watcher has ended.
M.Closed = new_kind {
  event = "closed", method = "wait_closed", hears_losses = true, ends_early = true,
}

-- ---- wake numbers ----

local Wakeups = {}
Wakeups.__index = Wakeups

--- Returns a Wakeups, the waiters of a core client by their wake numbers. `chosen` and `socket_dir`
-- are the options `loop` and `socket_dir` of connect; both may be nil.
function M.new(core_client, chosen, socket_dir)
  return setmetatable({
    core = core_client,
    chosen = chosen,
    socket_dir = socket_dir,
    _expected = {}, -- wake number -> waiter
    -- List of the numbers that were read from the wake queue. Those before `first` are delivered.
    _pushed = { first = 1 },
    -- Event loop (the argument `key` of Wakeups:watch) -> its Watcher. The keys are weak, because a
    -- client must not keep an event loop from being collected.
    _watchers = setmetatable({}, { __mode = "k" }),
    -- For nginx.lua:
    idle = {}, -- list of the idle connections
    shared = setmetatable({}, { __mode = "k" }), -- ngx.ctx -> connection of held locks
    address = nil, -- of the wake server
  }, Wakeups)
end

--- Registers `waiter`: when `number` is delivered, waiter:wake() is called once. `wake` must
-- neither yield nor raise an error.
function Wakeups:expect(number, waiter)
  self._expected[number] = waiter
end

--- Removes the waiter of `number`.
function Wakeups:forget(number)
  self._expected[number] = nil
end

--- Returns the descriptor that is readable while the wake queue is not empty. On failure returns
-- nil, message, code.
function Wakeups:fd()
  return self.core:wake_fd()
end

--- Empties the wake queue, and wakes the waiter of each number. Called when the descriptor may be
-- readable. (A core client that was collected has no queue.)
function Wakeups:deliver()
  local pushed = self._pushed
  self.core:woken(pushed)
  -- A waiter's `wake` may call `deliver`, which then delivers the remaining numbers.
  while pushed[pushed.first] do
    local number = pushed[pushed.first]
    local waiter = self._expected[number]
    pushed.first = pushed.first + 1
    self._expected[number] = nil
    if waiter then
      waiter:wake()
    end
  end
  if pushed[1] then
    self._pushed = { first = 1 }
  end
end

-- ---- watchers of the descriptor ----

--- A Watcher watches the descriptor in one event loop. All waiters in this loop share it. It has no
-- reference to the loop. So if the program drops the loop, Lua collects the loop and its waits.
local Watcher = {}
Watcher.__index = Watcher

--- Removes one waiter. Without waiters the watcher stops.
function Watcher:leave()
  self.count = self.count - 1
  if self.count == 0 and not self.is_over then
    self.is_over = true
    self.stop(self.fd)
  end
end

--- Adds a waiter to the Watcher of the event loop `key`, and returns the Watcher. The caller calls
-- the Watcher's `leave` later. If it does not, like pending.lua, the Watcher stops only in `close`.
--
-- If the loop has no Watcher yet, one is made with watch(fd, deliver). `watch` arranges that the
-- loop calls deliver() whenever the descriptor `fd` is readable, and returns a function stop(fd)
-- that ends this, and perhaps a function is_stopped() that tells whether the program has ended it.
-- They must have no reference to `key`, which the table of watchers would keep alive otherwise.
function Wakeups:watch(key, fd, watch)
  local watcher = self._watchers[key]
  if not watcher or watcher.is_over or watcher.is_stopped and watcher.is_stopped() then
    watcher = setmetatable({ fd = fd, count = 0, is_over = false }, Watcher)
    watcher.stop, watcher.is_stopped = watch(fd, function()
      self:deliver()
    end)
    self._watchers[key] = watcher
  end
  watcher.count = watcher.count + 1
  return watcher
end

--- Closes the core client within `seconds`, which ends all waits, and wakes their waiters. The
-- watchers stop before the descriptor is closed. Otherwise an event loop could still watch its
-- number when another file has got this number.
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
