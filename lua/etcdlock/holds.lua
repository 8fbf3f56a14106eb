--- Who of this program holds which lock of one client: by it a lock is reentered,
-- and a wait refused that could never end.
local coroutines = require "etcdlock.coroutines"
local host = require "etcdlock.wait.host"

local Holds = {}
Holds.__index = Holds

-- Lua 5.1 has no name for its main coroutine. Nobody can name this one.
local MAIN = {}

-- Those of all clients of this program (keys).
local all = setmetatable({}, { __mode = "k" })

--- For a client of the etcd at `endpoints`, a list.
function Holds.new(endpoints)
  local where = { (table.unpack or unpack)(endpoints) } -- luacheck: ignore unpack
  table.sort(where)
  local self = setmetatable({
    _locks = setmetatable({}, { __mode = "v" }), -- by full name
    _lingering = {}, -- core locks whose key was kept, by full name
    _where = table.concat(where, ","),
  }, Holds)
  all[self] = true
  return self
end

--- Who asks: what the caller says, else the running coroutine.
function Holds.owner(said)
  if said ~= nil then
    return said
  end
  return coroutines.running() or coroutine.running() or MAIN
end

--- Lets go of a hold whose with_lock can't do that any more.
local function take_over(self, full, lock)
  self:remove(full, lock)
  lock._core:outlive()
end

local function live(self, full)
  local lock = self._locks[full]
  if not lock or not lock:_left() then
    return nil
  elseif lock._run and lock._count == 1 and host.is_cut_off(lock) then
    take_over(self, full, lock)
    return nil
  end
  return lock
end

--- The lock of this name if `owner` holds it and may have it again.
function Holds:own(full, owner)
  local lock = live(self, full)
  return lock and lock._owner == owner and host.is_reentered(lock) and lock or nil
end

function Holds:add(full, lock)
  self._locks[full] = lock
end

--- Forgets a lock that was released, so that its owner may take it anew.
function Holds:remove(full, lock)
  if self._locks[full] == lock then
    self._locks[full] = nil
  end
end

--- A lock was let go of, with its key kept: the next who wants it may have it.
function Holds:linger(full, core_lock)
  self._lingering[full] = core_lock
end

function Holds:has_lingering(full)
  return self._lingering[full] ~= nil
end

--- The core lock of this name that was let go of so, once; it may have ended since.
function Holds:take_lingering(full)
  local core_lock = self._lingering[full]
  self._lingering[full] = nil
  return core_lock
end

-- ---- refusals ----

--- Another owner, for messages.
local function describe(owner)
  if type(owner) == "string" or type(owner) == "number" then
    return string.format("another owner of this program, %q", tostring(owner))
  end
  return (type(owner) == "thread" or owner == MAIN) and "another coroutine of this program"
    or "another owner of this program"
end

--- Would a wait for this lock, another owner's, never end? In a program that
-- blocks, nobody could release it meanwhile, unless its max_hold ends it. In an
-- event loop the others go on; but what an earlier phase of a request has left for a
-- later one to unlock, the later one must not wait for.
local function is_deadlock(lock, chosen)
  return lock ~= nil and not lock._max_hold and (not host.loop(chosen) or host.is_past(lock))
end

--- The lock of this name that another client of this program has, of the same etcd.
local function held_elsewhere(self, full)
  for other in pairs(all) do
    local lock = other ~= self and other._where == self._where and live(other, full)
    if lock then
      return lock
    end
  end
end

local function find_deadlock(self, full, chosen)
  local lock = live(self, full)
  if is_deadlock(lock, chosen) then
    return host.is_past(lock) and "an earlier phase of this request" or describe(lock._owner)
  elseif is_deadlock(held_elsewhere(self, full), chosen) then
    return "another client of this program"
  end
end

--- Does somebody else of this program hold `name`, so that it makes no sense to
-- ask for it: message, code.
function Holds:refusal(full, name, try, chosen)
  if try then
    local lock = live(self, full)
    if lock then
      return string.format("lock %q is held by %s", name, describe(lock._owner)), "locked"
    end
    return nil
  end
  if not host.loop(chosen) and find_deadlock(self, full, chosen) then
    -- It may have been dropped, and then is released when Lua collects it.
    collectgarbage()
    collectgarbage()
  end
  local holder = find_deadlock(self, full, chosen)
  if holder then
    local text = "lock %q is held by %s, which can't release it while this one waits"
    return text:format(name, holder), "deadlock"
  end
end

return Holds
