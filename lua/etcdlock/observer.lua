--- An observer of an election: it reports the leader and the leader's value whenever one of
-- them has changed, and reports when nobody leads any more.
--
-- The core counts the changes below the election's name that etcd's watch reports. After a change
-- the observer reads the leader from etcd, so it always ends with the newest leader; several
-- changes before one read are reported as one. An answer counts only if the observer has used no
-- other answer since the request was sent: reads are linearizable, so no answer that counts is
-- older than one before it.
-- @classmod observer
-- @alias Observer
local candidates = require "etcdlock.candidates"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local host = require "etcdlock.wait.host"
local numbers = require "etcdlock.numbers"
local of_news = require "etcdlock.wait.of_news"
local quote = require("etcdlock.characters").quote

local Observer = {}
Observer.__index = Observer
Observer.__name = "etcdlock.observer"

-- Seconds after which the leader is read again although no change was reported: etcd 3.4 can lose
-- a DELETE event at a compaction.
local READ_AFTER = 10
-- Seconds after which a failed read is repeated.
local RETRY_AFTER = 0.5
-- Least seconds for a read. It may end 0.1 s late, and a call 0.25 s after its timeout.
local READ_MIN = 0.15

-- Returns the message `text` about this observer.
local function about(self, text)
  return string.format("observer of election %s: %s", quote(self._name), text)
end

-- Reads the leader after `changes` changes, the last of them at the store's revision `changed_at`:
-- true | nil, message, code.
local function read(self, left, changes, changed_at)
  local known, reads = math.max(self._revision, changed_at), self._reads
  local client, ends = self._client, core.now() + math.max(left, READ_MIN)
  local leader, revision, code =
    candidates.leader(client, self._full, math.min(ends, client._ask_ends()))
  if leader ~= nil and revision < known then -- a linearizable read must not do that
    leader, code = nil, "unavailable"
    revision = about(self, "etcd answers from an older revision than it has reported")
  end
  if leader == nil then
    if code == "unavailable" then
      self._failure, self._read_at = revision, core.now() + RETRY_AFTER
    end
    return nil, revision, code
  end
  if self._reads == reads then
    self._leader, self._revision, self._reads = leader, revision, reads + 1
    self._failure, self._read_at = nil, core.now() + READ_AFTER
    self._passed = changes
    self._watcher:pass(changes, leader and leader.key or nil)
  end
  return true
end

-- Waits for changes, or only for the watcher's end.
local Heard = of_news("arm_watcher", "disarm_watcher", function(wait, seconds)
  return wait.subject:wait(wait.news, seconds)
end)

-- Waits for `news` ("news" or "end") until the next read is due, `left` seconds at most:
-- true | nil, message, code.
local function await(self, news, left)
  local seconds = math.min(left, self._read_at - core.now())
  if seconds <= 0 then
    return true
  end
  local client = self._client
  local message, code = client:_refusal()
  if message then
    return nil, message, code
  end
  local wait = { subject = self._watcher, news = news, limit = seconds }
  local heard
  heard, message, code = client:_await(Heard, wait)
  wait:disarm()
  if heard == false then
    return nil, message, code
  end
  return true
end

-- Reads the leader if that is due, or else waits: true | nil, message, code.
local function step(self, left)
  local changes, changed_at, code = self._watcher:changes()
  if not changes then
    return nil, about(self, changed_at), code
  elseif core.now() >= self._read_at or changes ~= self._passed and not self._failure then
    return read(self, left, changes, changed_at)
  end
  return await(self, self._failure and "end" or "news", left)
end

-- Returns true if the leader, its value, or that nobody leads was not reported yet.
local function is_news(self)
  local leader, reported = self._leader, self._reported
  if leader and reported then
    return leader.key ~= reported.key or leader.token ~= reported.token
      or leader.value ~= reported.value
  end
  return leader ~= reported
end

-- Returns true if the wait goes on after a step failed with `code`. An outage is waited out.
-- Without a timeout an etcd that was never reached is not: its address may be wrong.
local function is_waited_out(self, code, timeout, left)
  return code == "unavailable" and not self._client._fail_fast
    and left > 0 and (timeout or self._reads > 0)
end

-- Returns the failure of a call whose time is over.
local function timed_out(self, timeout)
  local outage = self._client._core:outage()
  if outage then
    return nil, about(self, outage), "unavailable"
  elseif self._failure then
    return nil, self._failure, "unavailable"
  end
  local seconds = numbers.format("%g", timeout)
  return nil, about(self, ("leader and value have not changed within %s s"):format(seconds)),
    "timeout"
end

--- Waits until the leader or its value has changed and returns both, or `false` if nobody leads any
-- more. The first call returns the current leader, or waits for one. Several coroutines may call
-- one observer: each change is returned to one of them.
-- @tparam[opt] seconds timeout seconds to wait; 0: only asks etcd, for 0.25 s, if there may be a
--   change; nil: no limit, also in an outage, but not for an etcd that was never reached
-- @treturn string|false the leader's value; `false`, without key and token: nobody leads
-- @treturn string the leader's key
-- @treturn token of the leader
-- @fail timeout, unavailable, closed, denied, conflict, forked, context, premature: after
--   `unavailable` (etcd is out of reach) the next call goes on
-- @raise for a wrong type
function Observer:next(timeout)
  check.seconds("observer:next", "timeout", timeout)
  local usable, message, code = self._client._core:usable()
  if not self._watcher then
    return nil, self._message, self._code
  elseif not usable and code == "forked" then
    return nil, message, code
  end
  local ends = core.now() + (timeout or math.huge)
  repeat
    local ok
    ok, message, code = step(self, ends - core.now())
    if ok and is_news(self) then
      local leader = self._leader
      self._reported = leader
      if not leader then
        return false
      end
      return leader.value, leader.key, leader.token
    elseif not ok and not is_waited_out(self, code, timeout, ends - core.now()) then
      return nil, message, code
    end
  until core.now() >= ends
  return timed_out(self, timeout)
end

-- For `for value, key, token in observer do`: the same. The loop ends when the observer is closed
-- or the nginx worker exits (premature); any other failure is raised.
function Observer:__call()
  if not coroutines.crosses and host.loop(self._client._wakeups.chosen) then
    check.raise("observer: a for loop can't wait here in Lua 5.1, wanted observer:next()")
  end
  local value, key, token = self:next()
  if value == nil and token ~= "closed" and token ~= "premature" then
    check.raise(key)
  end
  return value, key, token
end

--- Closes the observer: every call fails with `closed` from then on, also one that waits. May be
-- repeated. Lua 5.4 closes the observer at the end of `for … in election:observe() do`, also after
-- `break`; otherwise Lua closes it when it is collected as garbage.
-- @treturn true
-- @fail never
function Observer:close()
  if self._watcher and self._client._core:usable() then
    self._watcher:close()
  end
  return true
end

function Observer:__close()
  self:close()
end

function Observer:__tostring()
  return string.format("etcdlock.observer %s", quote(self._name))
end

check.methods(Observer, "observer")

-- For election:observe. If the watch cannot start, next returns why.
function Observer.new(client, name, full)
  local watcher, message, code = client._core:watch(full .. "/")
  return setmetatable({
    _client = client,
    _name = name,
    _full = full,
    _watcher = watcher,
    _message = message, -- why there is no watcher
    _code = code,
    _leader = false, -- a leader of candidates.leader; false: nobody leads, or not read yet
    _revision = 0, -- store revision of _leader
    _reads = 0, -- number of answers used
    _reported = false, -- the leader that was reported last; false: nobody leads, or none yet
    _passed = 0, -- number of changes that _leader contains
    _read_at = 0, -- time of the next read if no change is reported
    _failure = nil, -- message of the last read if that failed with "unavailable"
  }, Observer)
end

return Observer
