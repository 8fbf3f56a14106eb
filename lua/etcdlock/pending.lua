--- A pending lock: a lock that a program has requested, and that is neither granted nor refused
-- yet. With it a program waits for a lock in an event loop that etcdlock does not know, or beside
-- its sockets. The program polls the pending lock with cqueues (which calls `pollfd`, `events` and
-- `timeout`) or with luasocket's `select` (`getfd` and `dirty`), and then calls `step`; or it calls
-- `copas.receive` (`getfd`, `dirty`, `settimeout`, `receive` and `close`).
--
-- All waits of a client share one descriptor, so the descriptor may be readable because another
-- wait has ended. In this case `step` returns false: the lock is still pending.
-- @classmod pending
-- @alias Pending
local check = require "etcdlock.check"

local Pending = {}
Pending.__index = Pending
Pending.__name = "etcdlock.pending"

local unpack_list = table.unpack or unpack -- luacheck: ignore unpack

-- Makes cqueues forget the descriptor `fd`. cqueues remembers descriptors by their numbers, so it
-- must forget this descriptor before another file gets the same number.
local function unpoll(fd)
  local cqueues = package.loaded.cqueues
  if cqueues and fd then
    cqueues.cancel(fd)
  end
end

-- The waiter that `arm` registers with Wakeups:expect (waits.lua). When the wait for a pending lock
-- ends, its waiter is woken, and makes cqueues forget the descriptor. A waiter references the
-- Wakeups object of the client, and not the pending lock: otherwise Lua could not collect a pending
-- lock that the program no longer uses.
local Waiter = {}
Waiter.__index = Waiter

function Waiter:wake()
  unpoll(self.wakeups:fd())
end

-- Makes the client's descriptor readable when `core_lock` is decided. If `core_lock` is nil or
-- decided already, the descriptor becomes readable at once, because some programs call `step` only
-- when the descriptor is readable. Returns the number of the waiter. If the client is closed, does
-- nothing and returns nil, because the descriptor is closed, too.
local function arm(wakeups, core_lock)
  local core_client = wakeups.core
  local number, is_pending, fd, _
  if core_lock then
    number, is_pending, fd = core_client:begin_wait(core_lock, "decided")
  end
  if not (number and is_pending) then
    number, _, fd = core_client:begin_wait(nil, nil, 0)
  end
  if number then
    wakeups:expect(number, setmetatable({ wakeups = wakeups }, Waiter))
    wakeups:watch(Pending, fd, function()
      return unpoll
    end)
  end
  return number
end

local function begin_wait(self, core_lock, on_outcome)
  self._core, self._on_outcome = core_lock, on_outcome
  self._number = arm(self._wakeups, core_lock)
end

-- Stores the outcome, which `step` returns from now on.
local function decide(self, ...)
  self._results = { n = select("#", ...), ... }
  self._core, self._on_outcome = nil, nil
  if self._is_polled then
    unpoll(self._wakeups:fd())
  end
end

-- Increments the count of the lock that the owner held when Pending.new_reentrant was called. If
-- the owner has unlocked it meanwhile, requests the lock from the core instead.
local function take_or_start(self)
  local lock, core_lock, on_outcome, code = self._reenter(), nil, nil, nil
  if not lock then
    core_lock, on_outcome, code = self._start()
  end
  if core_lock then
    begin_wait(self, core_lock, on_outcome)
  else
    decide(self, lock, on_outcome, code) -- on_outcome is the message
  end
end

local function poll(self)
  local usable, message, code = self._wakeups.core:usable()
  if not usable and code == "forked" then
    return decide(self, nil, message, code)
  end
  self._wakeups:deliver() -- otherwise the descriptor would stay readable
  local ok
  ok, message, code = self._core:wait(0)
  if ok == nil then
    self._on_outcome(nil)
  else
    decide(self, self._on_outcome(ok, message, code))
  end
end

--- Returns the outcome, or false if there is none yet. Never blocks.
-- @treturn[1] lock
-- @treturn[2] false as long as there is no outcome
-- @fail as client:lock, cancelled: `cancelled` after `pending:cancel`
function Pending:step()
  if not self._results and not self._core then
    take_or_start(self)
  end
  if not self._results then
    poll(self)
  end
  if not self._results then
    return false
  end
  return unpack_list(self._results, 1, self._results.n)
end

--- Cancels the wait. If the lock was granted, but `step` has not returned it yet, `cancel` releases
-- the lock. Later calls of `step` fail with `cancelled`. If `step` has returned the outcome
-- already, `cancel` does nothing.
-- @treturn boolean true if the call has cancelled the wait; false if it did nothing
-- @fail never
function Pending:cancel()
  if self._results then
    return false
  end
  local message, code = "the wait for the lock was cancelled", "cancelled"
  if self._core then
    self._core:release()
    if self._number then
      self._wakeups:forget(self._number)
    end
    self._on_outcome(false, message, code)
  end
  decide(self, nil, message, code)
  return true
end

-- ---- the interfaces of event loops ----

--- Returns true if `step` should be called now, even if the descriptor is not readable. luasocket's
-- `select` calls this.
-- @treturn boolean
-- @fail never
function Pending:dirty()
  return not self._core or self._core:wait(0) ~= nil
end

--- Returns the client's descriptor, which becomes readable when a wait of the client ends. For
-- cqueues, and for an event loop of your own.
-- @treturn descriptor|nil nil after the client was closed
-- @fail never
function Pending:pollfd()
  self._is_polled = true
  return (self._wakeups:fd())
end

--- Returns the client's descriptor for luasocket's `select`. After the client was closed, returns
-- 0, because `select` needs a number.
-- @treturn descriptor
-- @fail never
function Pending:getfd()
  return self._wakeups:fd() or 0
end

--- Returns the outcome for `copas.receive(pending)`, which yields until there is an outcome.
-- @treturn lock
-- @fail as pending:step: as long as there is no outcome, the call returns nil, `timeout`, as copas
--   expects
function Pending:receive()
  local lock, message, code = self:step()
  if lock == false then
    return nil, "timeout"
  end
  return lock, message, code
end

--- Does nothing. copas calls it to set a timeout, but the timeout of the lock is an option of
-- `lock_async`.
-- @function pending:settimeout
-- @treturn nil
-- @fail never
function Pending.settimeout() end

--- Cancels the wait. When a coroutine ends, copas calls `close` of the last object for which the
-- coroutine has waited.
-- @treturn nil
-- @fail never
function Pending:close()
  self:cancel()
end

--- Returns the events for which cqueues polls the descriptor.
-- @function pending:events
-- @treturn string always `"r"`
-- @fail never
function Pending.events()
  return "r"
end

--- Returns the seconds for which cqueues polls the descriptor. The timeout of the lock has no
-- influence on them.
-- @treturn seconds|nil 0 if `step` should be called now; nil: no limit
-- @fail never
function Pending:timeout()
  return self:dirty() and 0 or nil
end

function Pending:__tostring()
  return string.format("etcdlock.pending (%s)", self._results and "decided" or "waiting")
end

check.methods(Pending, "pending")

-- ---- for acquire.lua ----

-- Creates a pending lock for the core's lock `core_lock`. The first `step` after the core lock is
-- decided calls on_outcome(ok, message, code) with the outcome, and returns its results; each
-- earlier `step` calls on_outcome(nil). `cancel` calls on_outcome(false, message, code).
function Pending.new(wakeups, core_lock, on_outcome)
  local self = setmetatable({ _wakeups = wakeups }, Pending)
  begin_wait(self, core_lock, on_outcome)
  return self
end

-- Creates a pending lock for an owner that holds the lock already. The first `step` calls
-- reenter(), which increments the count of the lock and returns the lock; nil if the owner has
-- unlocked it meanwhile. If reenter() returns nil, `step` calls start(), which requests the lock
-- from the core. start() returns the arguments core_lock and on_outcome of Pending.new; or nil,
-- message, code on failure.
function Pending.new_reentrant(wakeups, reenter, start)
  arm(wakeups)
  return setmetatable({ _wakeups = wakeups, _reenter = reenter, _start = start }, Pending)
end

return Pending
