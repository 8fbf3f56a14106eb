--- A lock that was acquired: what its holder can ask, and how it lets go.
-- @classmod lock
-- @alias Lock
local check = require "etcdlock.check"
local guarded = require "etcdlock.guarded"
local host = require "etcdlock.wait.host"
local loss = require "etcdlock.loss"
local of_lock = require "etcdlock.wait.of_lock"
local quote = require("etcdlock.characters").quote

local Lock = {}
Lock.__index = Lock
Lock.__name = "etcdlock.lock"

-- How long unlock waits for etcd to confirm; the release goes on behind it.
local RELEASE_WAIT = 2

-- ---- state ----

Lock._forked = loss.forked
Lock._not_held = loss.not_held

-- Is the hold alive right now? Asks nobody. For holds.lua, loss.lua,
-- losses.lua, guarded.lua and here.
function Lock:_left()
  if self._count == 0 then
    return nil
  end
  host.notice_end(self._core, self._tie)
  return self._core:left()
end

-- Raises for other locks than a leader's. For guarded.lua and here.
function Lock:_check_leader(where)
  if self._mode ~= "leader" then
    check.raise(string.format("%s: lock %s is no leader's, wanted one of campaign", where,
      quote(self:name())))
  end
end

--- Tells whether the lock is still ours. Local, cheap: no request, and no mutex while it is.
-- @treturn[1] true
-- @treturn[1] seconds for which that may be relied on
-- @treturn[2] false
-- @treturn[2] code `lost`, `not_held`, `closed` or `forked`
function Lock:held()
  local left = self:_left()
  if left then
    return true, left
  end
  self._client._losses:tell()
  self._client._events:deliver()
  local _, code = self:_not_held()
  return false, code
end

--- Tells for how long it may be relied on. Local, cheap.
-- @treturn seconds 0 if it isn't held
-- @fail never
function Lock:remaining()
  return self:_left() or 0
end

--- Tells the fencing token: the create_revision of our key. It never falls, and grows from
-- client to client; a resource that remembers the largest one can refuse a late holder.
-- Those who hand the lock on to each other share one; of readers and permits several are
-- valid at a time.
-- @treturn token
-- @fail never
function Lock:token()
  return self._core:token()
end

--- Tells how many `unlock` calls are due.
-- @treturn count 0 after the last
-- @fail never
function Lock:count()
  return self._count
end

--- Tells the name it was asked for by, without the client's prefix.
-- @treturn string a space stands between one and the next where there are several
-- @fail never
function Lock:name()
  return self._request.name
end

--- Tells the names it was asked for by.
-- @treturn {string,...} one only where it is no `multi_lock`
-- @fail never
function Lock:names()
  return { (table.unpack or unpack)(self._request.names) } -- luacheck: ignore unpack
end

--- What `lock:mode` tells.
-- @table mode
-- @field lock of `client:lock`
-- @field read a reader's
-- @field write a writer's
-- @field permit of a semaphore
-- @field multi several names at once
-- @field leader of an election

--- Tells what kind of lock it is.
-- @treturn mode
-- @fail never
function Lock:mode()
  return self._mode
end

--- Tells its key in etcd.
-- @treturn string the first one's where there are several names
-- @fail never
function Lock:key()
  return self._core:key()
end

--- Tells its lease.
-- @treturn string in hex
-- @fail never
function Lock:lease()
  return self._core:lease()
end

function Lock:__tostring()
  local state
  if self:_left() then
    state = string.format("held, token %.0f, count %d", self:token(), self._count)
  else
    local _, code = self:_not_held()
    state = code
  end
  return string.format("etcdlock.lock %s (%s)", quote(self:name()), state)
end

-- ---- letting go ----

local function tell_released(self, core_lock)
  local events = self._client._events
  if events.is_on then
    events:report_released(self, core_lock:held_for())
  end
end

-- Lets go of the core's lock: was it held?
local function release(self)
  local client = self._client
  local was_held = self._core:release()
  client._losses:leave(self, not was_held)
  if was_held then
    tell_released(self, self._core) -- while etcd is on its way to hear of it
  end
  return was_held
end

-- Waits for etcd to confirm: true | nil, message, code. Where nobody can wait, it is
-- on its way.
local function await_release(self)
  local client = self._client
  if host.refusal(client._wakeups.chosen) then
    return true
  end
  local released, message, code = client:_await(of_lock.Released, {
    core_lock = self._core, tie = self._tie, limit = client:_outage() and 0 or RELEASE_WAIT,
  })
  if released == nil then
    local text = "lock %s: etcd has not confirmed the release yet; it goes on"
    return nil, text:format(quote(self:name())), "unavailable"
  end
  return released, message, code
end

--- Lets go once; the last of as many calls as there were locks releases it. May be repeated,
-- can't free anybody else's lock. It waits 2 s at most for etcd to confirm; where it can't
-- be waited for (in some phases of nginx) the answer is true as soon as the release is on its
-- way. A `local lock <close>` (Lua 5.4) that goes out of scope is released too. A lock that
-- has ended with its request in nginx is released already, which is true.
-- @treturn true
-- @fail not_held, lost, or a request's: `lost` if it was lost before, `unavailable` if it is
--   not ours any more, but etcd has not confirmed: the release goes on in the background
-- @raise never
function Lock:unlock()
  if self._count == 0 then
    return nil, string.format("lock %s is not held", quote(self:name())), "not_held"
  end
  local message, code = self:_forked()
  if code then
    return nil, message, code
  end
  self._count = self._count - 1
  if self._count > 0 then
    if self._core:left() or self._core:is_outlived() then
      return true
    end
    return nil, self:_not_held()
  end
  self._client._holds:remove(self)
  self._client._losses:expect_no_news(self)
  local released
  if release(self) then
    released, message, code = await_release(self)
  elseif self._core:is_outlived() then
    released = true
  else
    message, code = self:_not_held()
  end
  host.untie(self._client._wakeups, self._tie)
  if released then
    return true
  end
  self._client._events:deliver()
  return nil, message, code
end

--- Gives the lead up: a leader's `unlock`. If etcd did not answer a request of `campaign` in time,
-- it may apply that request after `resign`: observers then see this candidate as leader again,
-- with another token, until its client finds and deletes that key, which takes about 8 s at most
-- while etcd answers.
-- @treturn true
-- @fail as lock:unlock
-- @raise for a lock that is no leader's
function Lock:resign()
  self:_check_leader "lock:resign"
  return self:unlock()
end

--- Sets the hard end of the hold, whatever `max_hold` was.
-- @tparam seconds seconds from now, above 0
-- @treturn true
-- @fail lost, not_held, closed, forked
-- @raise for a wrong type, for 0 or less, for inf
function Lock:expire(seconds)
  check.some_seconds("lock:expire", "seconds", seconds)
  if not self:_left() or not self._core:expire(seconds) then
    return nil, self:_not_held()
  end
  self._max_hold = seconds
  return true
end

-- Lua 5.4: `local lock <close> = client:lock(name)`.
function Lock:__close()
  self:unlock()
end

-- ---- being told ----

-- Described in loss.lua.
Lock.on_lost = loss.on_lost
Lock.wait_lost = loss.wait_lost

-- ---- guarded access ----

-- Described in guarded.lua.
Lock.check = guarded.check
Lock.put = guarded.put
Lock.delete = guarded.delete
Lock.get = guarded.get
Lock.txn = guarded.txn
Lock.downgrade = guarded.downgrade
Lock.proclaim = guarded.proclaim

check.methods(Lock, "lock")

-- Wraps a core lock that is held. For acquire.lua only.
function Lock.new(client, core_lock, request, tie)
  return setmetatable({
    _core = core_lock,
    _client = client,
    _request = request, -- of acquire.lua, by which it was taken
    _mode = request.mode,
    _may_downgrade = request.mode == "write", -- until etcd has confirmed it
    _says = request.says, -- of a leader
    _sharers = nil, -- those who hold beside it: holds.lua's
    _max_hold = request.max_hold,
    _tie = tie,
    _count = 1,
    _run = nil, -- of the with_lock that has taken it: host.run's
    _handlers = nil, -- and _news: losses.lua's
  }, Lock)
end

return Lock
