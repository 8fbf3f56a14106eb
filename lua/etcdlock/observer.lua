--- An observer of an election: it reports the leader and the leader's value whenever one of
-- them has changed, and reports when nobody leads any more, or when it is unknown who leads.
--
-- The core counts the changes below the election's name that etcd's watch reports; while the leader
-- is known, only those of its key. After a change the observer reads the leader from etcd, so that
-- in the end it always reports the newest leader. If several changes come before one read, the
-- observer reports them as one.
--
-- Several coroutines may read at the same time. So the observer uses an answer only if it has used
-- no other answer since it sent the request. Reads are linearizable, so each answer that is used is
-- at least as new as the one before.
--
-- Each read confirms the leader as of the time at which the request was sent. If etcd does not
-- answer, and no read has confirmed the leader for the TTL of the observer's client, it is unknown
-- who leads: in that time the client would have lost its own locks, too. The TTL of the leader's
-- lease is no better limit: etcd tells it only in another request, it contains the lock delay, and
-- with Go's default an observer would be silent for 60 s, although a leader may resign at any time.
-- @classmod observer
-- @alias Observer
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local format_number = require("etcdlock.text").format_number
local quote = require("etcdlock.text").quote
local runtime = require "etcdlock.wait.runtime"
local waits = require "etcdlock.wait.waits"

local Observer = {}
Observer.__index = Observer
Observer.__name = "etcdlock.observer"

-- If no change is reported, the leader is read again after the client's TTL / READ_DIVISOR, so that
-- the answer confirms the leader; and after READ_INTERVAL_MAX seconds at the latest, because etcd
-- 3.4 can lose a DELETE event at a compaction.
local READ_DIVISOR, READ_INTERVAL_MAX = 3, 10
-- Seconds after which a failed read is repeated.
local RETRY_INTERVAL = 0.5
-- Shortest time in seconds that a read gets, also if less is left of the timeout of `next`. A read
-- may end 0.1 s after its deadline, so `next` may end up to 0.25 s after its timeout.
local READ_TIMEOUT_MIN = 0.15

-- Returns `text` with the name of the election in front.
local function make_message(self, text)
  return string.format("observer of election %s: %s", quote(self._election._full_name), text)
end

-- Returns the time (core.now) from which it is unknown who leads, unless a read confirms the leader
-- earlier; math.huge before the first report.
local function get_expiry(self)
  return self._has_reported and self._confirmed_at + self._client._ttl or math.huge
end

-- Returns true if it is unknown who leads. The age of the leader alone does not tell: perhaps no
-- call of `next` has read for long, although etcd answers.
local function is_unknown(self)
  return self._failure ~= nil and core.now() >= get_expiry(self)
end

-- Returns the time (core.now) at which a read ends that begins at `now`, when `left` seconds are
-- left of the call. It ends when it becomes unknown who leads, so that `next` reports that in time.
-- But if the last read has not failed, for example after a pause of the program, or if that time
-- has passed, etcd gets at least TTL / READ_DIVISOR to answer, within the limits of the call.
local function get_read_end(self, now, left)
  local expiry = self._is_reported_unknown and math.huge or get_expiry(self)
  if not self._failure or now >= expiry then
    expiry = math.max(expiry, now + self._client._ttl / READ_DIVISOR)
  end
  local last = math.min(expiry, now + left, self._client._get_deadline())
  return math.max(last, now + READ_TIMEOUT_MIN)
end

-- Returns true if a read that has failed with "unavailable" says nothing about etcd: the call of
-- `next` was over before the answer, at the time `last`; no change was reported; and what the
-- observer knows is not too old.
local function is_inconclusive(self, changes, last)
  return core.now() >= last and changes == self._changes_read and self._confirmed_at
    and self:age() < self._client._ttl
end

-- Reads the leader within `left` seconds. `changes` is the number of changes that the watch has
-- reported so far, and `changed_at` the store revision of the last change. Returns true; or nil,
-- message, code if the read fails, unless the failure is inconclusive.
local function read(self, left, changes, changed_at)
  local known, reads = math.max(self._revision, changed_at), self._reads
  local sent_at = core.now()
  local leader, revision, code =
    self._election:_read_leader(get_read_end(self, sent_at, left))
  if leader ~= nil and revision < known then -- impossible for a linearizable read
    leader, code = nil, "unavailable"
    revision = make_message(self, "etcd answers from an older revision than it has reported")
  end
  if leader == nil then
    if code == "unavailable" then
      self._read_at = core.now() + RETRY_INTERVAL
      if is_inconclusive(self, changes, sent_at + left) then
        return true
      end
      self._failure = revision
    end
    return nil, revision, code
  end
  if self._reads == reads then
    self._leader, self._revision, self._reads = leader, revision, reads + 1
    self._failure, self._confirmed_at = nil, sent_at
    self._read_at = sent_at + math.min(self._client._ttl / READ_DIVISOR, READ_INTERVAL_MAX)
    self._changes_read = changes
    self._watcher:pass(changes, leader and leader.key or nil)
  end
  return true
end

-- Waits until the next read is due, at most `left` seconds. The end of the watch ends the wait
-- early, and so does a change if `kind` is Changed of waits.lua, but not if it is Closed. Returns
-- true; or nil, message, code if a wait is impossible.
local function await_changes(self, kind, left)
  local seconds = math.min(left, self._read_at - core.now())
  if seconds <= 0 then
    return true
  end
  local client = self._client
  local loop, message, code = client:_find_loop()
  if message then
    return nil, message, code
  end
  local ok
  ok, message, code = client:_await(kind, loop, self._watcher, seconds)
  if ok == false then
    return nil, message, code
  end
  return true
end

-- Reads the leader if a read is due. Otherwise waits for a change or for the time of the next read,
-- at most `left` seconds. Returns true; or nil, message, code on failure.
local function step(self, left)
  local changes, changed_at, code = self._watcher:changes()
  if not changes then
    return nil, make_message(self, changed_at), code
  elseif core.now() >= self._read_at or changes ~= self._changes_read and not self._failure then
    return read(self, left, changes, changed_at)
  end
  return await_changes(self, self._failure and waits.Closed or waits.Changed, left)
end

-- Returns true if the leader or its value differs from what `next` has reported last. That nobody
-- leads is a difference, and so is that it is unknown who leads, or that it is known again.
local function is_unreported(self)
  local leader, reported = self._leader, self._reported
  if is_unknown(self) ~= self._is_reported_unknown then
    return true
  elseif leader and reported then
    return leader.key ~= reported.key or leader.token ~= reported.token
      or leader.value ~= reported.value
  end
  return leader ~= reported
end

-- Marks the leader as reported, and returns what `next` returns.
local function report(self)
  local leader = self._leader or { value = false }
  self._has_reported, self._reported = true, self._leader
  self._is_reported_unknown = is_unknown(self)
  if self._is_reported_unknown then
    return leader.value, leader.key, leader.token, self:age()
  elseif leader.key then
    return leader.value, leader.key, leader.token
  end
  return false
end

-- Returns the time (core.now) at which a call of `next` ends that began at `began`. Without a
-- timeout it does not wait for ever for an etcd that has never answered, because the address may be
-- wrong.
local function get_end(self, began, timeout)
  return began + (timeout or self._client._core:wait_limit())
end

-- Returns true if `next` goes on after a step has failed with `code`, when `left` seconds are left.
-- During an outage `next` waits until etcd answers again, unless the client has the option
-- fail_fast.
local function may_go_on(self, code, left)
  return code == "unavailable" and not self._client._fail_fast and left > 0
end

-- Returns nil, message, code for a call whose timeout is over.
local function fail_at_timeout(self, timeout)
  local outage = self._client._core:outage()
  if outage then
    return nil, make_message(self, outage), "unavailable"
  elseif self._failure then
    return nil, self._failure, "unavailable"
  end
  local text = "etcd reported no change of leader or value within %s s"
  return nil, make_message(self, text:format(format_number("%g", timeout))), "timeout"
end

--- Waits until the leader or its value has changed, and returns the value, key and token of the
-- leader. If nobody leads any more, returns `false` alone. The first call reports the current
-- leader, or waits until there is a leader. Several coroutines may call one observer. Each change
-- is returned to one of them.
--
-- The fourth result is nil, with one exception. If etcd has not confirmed the last report for as
-- long as the client's `ttl`, it is unknown who leads. Then the call returns the last report once
-- more, with its age: the seconds since etcd has confirmed it. When etcd answers again, a later
-- call returns the current leader, or `false`, without an age, also if nothing has changed.
-- @tparam[opt] seconds timeout time to wait. 0: do not wait for a change; the call takes up to
--   0.25 s if it must ask etcd whether there was one. nil: no limit; the call waits also while etcd
--   is unreachable, unless the client has the option `fail_fast`. But if etcd has never answered
--   this client, it fails with `unavailable` as `client:lock` does
-- @treturn string|false value of the leader
-- @treturn string|nil key of the leader
-- @treturn token|nil token of the leader
-- @treturn seconds|nil age of the report
-- @fail timeout, or a request error: after `timeout` and `unavailable` (etcd is unreachable) the
--   program may call `next` again
-- @raise for a negative `timeout`
function Observer:next(timeout)
  check.seconds("observer:next", "timeout", timeout)
  local usable, message, code = self._client._core:usable()
  if not self._watcher then
    return nil, self._message, self._code
  elseif not usable and code == "forked" then
    return nil, message, code
  end
  local began = core.now()
  local left = get_end(self, began, timeout) - began
  repeat
    local ok
    ok, message, code = step(self, left)
    left = get_end(self, began, timeout) - core.now()
    if (ok or code == "unavailable") and is_unreported(self) then
      return report(self)
    elseif not ok and not may_go_on(self, code, left) then
      return nil, message, code
    end
  until left <= 0
  return fail_at_timeout(self, timeout)
end

-- Returns true if the observer knows a leader; false if nobody leads, nothing was read, or etcd has
-- not answered the last read; nil if the observer has ended.
function Observer:_knows_leader()
  if not self._watcher or not self._watcher:changes() then
    return nil
  end
  return self._leader ~= false and not self._failure
end

--- Returns the age of what the observer knows: the time since etcd has last confirmed the leader,
-- or that nobody leads. The age grows while etcd does not answer, and while no call of `next`
-- waits. Otherwise it is at most `ttl` / 3 (10 s if that is less) plus the time of an answer. Sends
-- no request.
-- @treturn seconds|nil counted from the time at which the client sent the request that etcd has
--   answered; nil: etcd has not answered the observer yet
-- @fail never
function Observer:age()
  return self._confirmed_at and core.now() - self._confirmed_at
end

-- Calls `next`, for `for value, key, token, unknown_for in observer do`. The loop ends when the
-- observer or the client is closed, or the nginx worker exits (`premature`). Any other failure is
-- raised.
function Observer:__call()
  if not coroutines.can_yield_in_pcall and runtime.loop(self._client._wakeups.chosen) then
    check.raise("observer: a for loop cannot wait here in Lua 5.1; call observer:next()")
  end
  local value, key, token, unknown_for = self:next()
  if value == nil and token ~= "closed" and token ~= "premature" then
    check.raise(key)
  end
  return value, key, token, unknown_for
end

--- Closes the observer: every later `next` fails with `closed`, also one that waits now. `close`
-- may be repeated. From Lua 5.4 on, Lua closes the observer at the end of `for … in
-- election:observe() do`, also after `break`. In earlier versions the observer is closed when Lua
-- collects it.
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
  return string.format("etcdlock.observer %s", quote(self._election._full_name))
end

check.methods(Observer, "observer")

-- Creates an observer; election:observe calls this. If the watch cannot start, `next` returns the
-- reason.
function Observer.new(election)
  local client = election._client
  local watcher, message, code = client._core:watch(election._full_name .. "/")
  local self = setmetatable({
    _client = client,
    _election = election,
    _watcher = watcher,
    _message = message, -- with _code, the reason for which there is no watcher; else nil
    _code = code,
    -- Last result of Election:_read_leader that was used; false: nobody leads, or nothing was read.
    _leader = false,
    _revision = 0, -- store revision at which _leader was read
    _confirmed_at = nil, -- time (core.now) at which that read was sent; nil: nothing was read
    _reads = 0, -- number of answers that were used
    _has_reported = false, -- `next` has returned a leader before
    -- The last leader that `next` has returned; false: it has returned none, or that nobody leads.
    _reported = false,
    _is_reported_unknown = false, -- `next` has returned last that it is unknown who leads
    _changes_read = 0, -- number of changes that the watch had reported before _leader was read
    _read_at = 0, -- time (core.now) of the next read if no change is reported
    _failure = nil, -- message of a read that failed with "unavailable"; nil after the next success
  }, Observer)
  if client._metrics then
    client._metrics:add_observer(self, election._full_name)
  end
  return self
end

return Observer
