--- A lock that was asked for and is not decided yet: for programs that have an
-- event loop of their own. It can be polled, by itself or among others, by
-- whatever polls objects with pollfd, events and timeout (cqueues), with getfd
-- and dirty (luasocket), or with these, receive and close (copas).
--
-- All that wait for one client show the same descriptor. One that is polled may
-- so be found readable for another's sake: then step answers false.
-- @classmod pending
-- @alias Pending
local check = require "etcdlock.check"

local Pending = {}
Pending.__index = Pending
Pending.__name = "etcdlock.pending"

-- cqueues keeps in mind what it polls by number: it must hear of the end before
-- another descriptor gets that number.
local function unpoll(fd)
  local cqueues = package.loaded.cqueues
  if cqueues and fd then
    cqueues.cancel(fd)
  end
end

-- Hears of the end of a wait. It holds the wakeups, and not what is pending, which may be
-- forgotten.
local Hearer = {}
Hearer.__index = Hearer

function Hearer:wake()
  unpoll(self.wakeups:fd())
end

-- Has the descriptor show when `core_lock` is decided; at once, for who looks at nothing
-- else, if it is already, or there is none: then there is something to step for.
local function show(wakeups, core_lock)
  local number = wakeups:expect(setmetatable({ wakeups = wakeups }, Hearer))
  if not core_lock or not wakeups.core:arm(core_lock, "decided", number) then
    wakeups.core:alarm(number, 0)
  end
  wakeups:watch(Pending, function()
    return unpoll
  end)
end

local function wait_for(self, core_lock, told)
  self._core, self._told = core_lock, told
  show(self._wakeups, core_lock)
end

local function decide(self, ...)
  self._answer = { n = select("#", ...), ... }
  self._core, self._told = nil, nil
  if self._polled then
    unpoll(self._wakeups:fd())
  end
end

local function begin(self)
  local lock, core_lock, told, code = self._take(), nil, nil, nil
  if not lock then
    core_lock, told, code = self._begin()
  end
  if core_lock then
    wait_for(self, core_lock, told)
  else
    decide(self, lock, told, code)
  end
end

local function look(self)
  local usable, message, code = self._wakeups.core:usable()
  if not usable and code == "forked" then
    return decide(self, nil, message, code)
  end
  self._wakeups:deliver() -- or the descriptor would stay readable
  local ok
  ok, message, code = self._core:wait(0)
  if ok == nil then
    self._told(nil)
  else
    decide(self, self._told(ok, message, code))
  end
end

--- Tells how it is going. Never blocks.
-- @treturn[1] lock
-- @treturn[2] false while it waits
-- @fail as client:lock, cancelled
function Pending:step()
  if not self._answer and not self._core then
    begin(self)
  end
  if not self._answer then
    look(self)
  end
  if not self._answer then
    return false
  end
  return (table.unpack or unpack)(self._answer, 1, self._answer.n) -- luacheck: ignore unpack
end

--- Gives the wait up, or releases the lock if it was decided and nobody has asked for it yet.
-- `step` answers `cancelled` from then on.
-- @treturn boolean true if it was still pending, false if `step` has told the outcome
-- @fail never
function Pending:cancel()
  if self._answer then
    return false
  end
  local message, code = "the wait for the lock was given up", "cancelled"
  if self._core then
    self._core:release()
    self._told(false, message, code)
  end
  decide(self, nil, message, code)
  return true
end

-- ---- what loops look for ----

--- Tells whether there is something to `step` for, without waiting for the descriptor. For
-- luasocket's `select`.
-- @treturn boolean
-- @fail never
function Pending:dirty()
  return not self._core or self._core:wait(0) ~= nil
end

--- Tells the client's descriptor, which is readable when any of its waits has ended. For
-- cqueues, and a loop of your own.
-- @treturn descriptor|nil nil once the client is closed
-- @fail never
function Pending:pollfd()
  self._polled = true
  return (self._wakeups:fd())
end

--- Tells the same to luasocket's `select`, which wants one even where there is nothing to poll.
-- @treturn descriptor
-- @fail never
function Pending:getfd()
  return self._wakeups:fd() or 0
end

--- Has `copas.receive(pending)` yield until `step` has an answer, and return that.
-- @treturn lock
-- @fail as pending:step: and nil, `timeout` while it waits, as copas wants it
function Pending:receive()
  local lock, message, code = self:step()
  if lock == false then
    return nil, "timeout" -- in copas' words: not yet
  end
  return lock, message, code
end

--- Does nothing: copas calls it, and the lock has a timeout of its own.
-- @function pending:settimeout
-- @treturn nil
-- @fail never
function Pending.settimeout() end

--- Gives the wait up: when a coroutine ends, copas closes what it waited for last.
-- @treturn nil
-- @fail never
function Pending:close()
  self:cancel()
end

--- Tells cqueues what to poll the descriptor for.
-- @function pending:events
-- @treturn string always `"r"`
-- @fail never
function Pending.events()
  return "r"
end

--- Tells cqueues how long to poll: the lock's own timeout is kept elsewhere.
-- @treturn seconds|nil 0 if it is decided, else nil
-- @fail never
function Pending:timeout()
  return self:dirty() and 0 or nil
end

function Pending:__tostring()
  return string.format("etcdlock.pending (%s)", self._answer and "decided" or "waiting")
end

check.methods(Pending, "pending")

-- ---- for acquire.lua ----

-- `told(ok, message, code)` hears the verdict on the core lock, and answers what step
-- does: the lock, or nil, message, code; before that nil, when somebody has asked.
function Pending.new(wakeups, core_lock, told)
  local self = setmetatable({ _wakeups = wakeups }, Pending)
  wait_for(self, core_lock, told)
  return self
end

-- One that the same owner holds: `take()` gives it to him once more, or nothing
-- if he has let it go before he asked; then `ask()` gives what new takes.
function Pending.again(wakeups, take, ask)
  show(wakeups)
  return setmetatable({ _wakeups = wakeups, _take = take, _begin = ask }, Pending)
end

return Pending
