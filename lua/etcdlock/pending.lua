--- A lock that a program has asked for and that is not decided yet, for an event loop of your own.
-- The program can poll it with cqueues (pollfd, events, timeout), with luasocket's select (getfd,
-- dirty) and with copas (the same, receive and close).
--
-- All waits of a client share one descriptor. So it may be readable for another wait: `step` then
-- returns false.
-- @classmod pending
-- @alias Pending
local check = require "etcdlock.check"

local Pending = {}
Pending.__index = Pending
Pending.__name = "etcdlock.pending"

local unpack_list = table.unpack or unpack -- luacheck: ignore unpack

-- Tells cqueues that the descriptor is no longer polled. cqueues remembers descriptors by number,
-- so it must forget this one before another file gets the number.
local function unpoll(fd)
  local cqueues = package.loaded.cqueues
  if cqueues and fd then
    cqueues.cancel(fd)
  end
end

-- The waiter of waits.lua: it unpolls the descriptor when a wait ends. It references the wakeups,
-- and not the pending lock, which the program may drop.
local Waiter = {}
Waiter.__index = Waiter

function Waiter:wake()
  unpoll(self.wakeups:fd())
end

-- Makes the client's descriptor readable when `core_lock` is decided. If it is decided already, or
-- nil, the descriptor becomes readable at once: some programs look only at the descriptor. Does
-- nothing if the client is closed: then its descriptor is closed, too.
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
end

local function begin_wait(self, core_lock, on_outcome)
  self._core, self._on_outcome = core_lock, on_outcome
  arm(self._wakeups, core_lock)
end

-- Sets the results of `step`.
local function decide(self, ...)
  self._results = { n = select("#", ...), ... }
  self._core, self._on_outcome = nil, nil
  if self._is_polled then
    unpoll(self._wakeups:fd())
  end
end

-- Takes the lock of new_reentrant once more. If the owner has unlocked it, starts to wait for it.
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
  self._wakeups:deliver() -- or the descriptor would stay readable
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
-- @treturn[2] false while the call waits
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

--- Cancels the wait. If the lock was granted and `step` has not returned it yet, releases it. Later
-- calls of `step` fail with `cancelled`.
-- @treturn boolean true if it was pending; false if `step` has returned the outcome already
-- @fail never
function Pending:cancel()
  if self._results then
    return false
  end
  local message, code = "the wait for the lock was cancelled", "cancelled"
  if self._core then
    self._core:release()
    self._on_outcome(false, message, code)
  end
  decide(self, nil, message, code)
  return true
end

-- ---- the interfaces of event loops ----

--- Returns true if `step` has something to do, without a look at the descriptor. For luasocket's
-- `select`.
-- @treturn boolean
-- @fail never
function Pending:dirty()
  return not self._core or self._core:wait(0) ~= nil
end

--- Returns the client's descriptor, which is readable when one of its waits has ended. For cqueues,
-- and for a loop of your own.
-- @treturn descriptor|nil nil after the client was closed
-- @fail never
function Pending:pollfd()
  self._is_polled = true
  return (self._wakeups:fd())
end

--- Returns the client's descriptor for luasocket's `select`, which needs a number also after the
-- client was closed: then 0.
-- @treturn descriptor
-- @fail never
function Pending:getfd()
  return self._wakeups:fd() or 0
end

--- Returns the outcome for `copas.receive(pending)`, which yields until there is one.
-- @treturn lock
-- @fail as pending:step: and nil, `timeout` while the call waits, as copas expects
function Pending:receive()
  local lock, message, code = self:step()
  if lock == false then
    return nil, "timeout"
  end
  return lock, message, code
end

--- Does nothing. copas calls it, but the timeout of the lock is an option of `lock_async`.
-- @function pending:settimeout
-- @treturn nil
-- @fail never
function Pending.settimeout() end

--- Cancels the wait. copas calls it for the last object that a coroutine waited for, when the
-- coroutine ends.
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

--- Returns the seconds for which cqueues polls. The timeout of the lock itself does not count here.
-- @treturn seconds|nil 0 if `step` has something to do, else nil
-- @fail never
function Pending:timeout()
  return self:dirty() and 0 or nil
end

function Pending:__tostring()
  return string.format("etcdlock.pending (%s)", self._results and "decided" or "waiting")
end

check.methods(Pending, "pending")

-- ---- for acquire.lua ----

-- Creates the pending lock of a core lock. on_outcome(ok, message, code) is called once with the
-- outcome of the core lock and returns the results of `step`. Before that, each `step` calls
-- on_outcome(nil).
function Pending.new(wakeups, core_lock, on_outcome)
  local self = setmetatable({ _wakeups = wakeups }, Pending)
  begin_wait(self, core_lock, on_outcome)
  return self
end

-- Creates the pending lock of an owner that holds the lock already. The first `step` calls
-- reenter(), which returns the lock once more, or nil if the owner has unlocked it meanwhile. Then
-- `step` calls start(), which returns the core lock and on_outcome of Pending.new, or nil, message,
-- code.
function Pending.new_reentrant(wakeups, reenter, start)
  arm(wakeups)
  return setmetatable({ _wakeups = wakeups, _reenter = reenter, _start = start }, Pending)
end

return Pending
