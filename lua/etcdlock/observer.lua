--- An observer of an election: it reports the leader and the leader's value whenever one of
-- them has changed, and reports when nobody leads any more.
--
-- The core counts the changes below the election's name that etcd's watch reports. After a change
-- the observer reads the leader from etcd, so that in the end it always reports the newest leader.
-- If several changes come before one read, the observer reports them as one.
--
-- Several coroutines may read at the same time. So the observer uses an answer only if it has used
-- no other answer since it sent the request. Reads are linearizable, so each answer that is used is
-- at least as new as the one before.
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

-- Seconds after which the leader is read again although no change was reported, because etcd 3.4
-- can lose a DELETE event at a compaction.
local READ_INTERVAL = 10
-- Seconds after which a failed read is repeated.
local RETRY_INTERVAL = 0.5
-- Shortest time in seconds that a read gets, also if less is left of the timeout of `next`. A read
-- may end 0.1 s after its deadline, so `next` may end up to 0.25 s after its timeout.
local READ_TIMEOUT_MIN = 0.15

-- Returns `text` with the name of the election in front.
local function make_message(self, text)
  return string.format("observer of election %s: %s", quote(self._election._full_name),
    text)
end

-- Reads the leader within `left` seconds. `changes` is the number of changes that the watch has
-- reported so far, and `changed_at` the store revision of the last change. Returns true; or nil,
-- message, code if the read fails.
local function read(self, left, changes, changed_at)
  local known, reads = math.max(self._revision, changed_at), self._reads
  local deadline = core.now() + math.max(left, READ_TIMEOUT_MIN)
  local leader, revision, code =
    self._election:_read_leader(math.min(deadline, self._client._get_deadline()))
  if leader ~= nil and revision < known then -- impossible for a linearizable read
    leader, code = nil, "unavailable"
    revision = make_message(self, "etcd answers from an older revision than it has reported")
  end
  if leader == nil then
    if code == "unavailable" then
      self._failure, self._read_at = revision, core.now() + RETRY_INTERVAL
    end
    return nil, revision, code
  end
  if self._reads == reads then
    self._leader, self._revision, self._reads = leader, revision, reads + 1
    self._failure, self._read_at = nil, core.now() + READ_INTERVAL
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

-- Returns true if the leader or its value differs from what `next` has reported last. Nobody leads
-- is a difference, too.
local function is_unreported(self)
  local leader, reported = self._leader, self._reported
  if leader and reported then
    return leader.key ~= reported.key or leader.token ~= reported.token
      or leader.value ~= reported.value
  end
  return leader ~= reported
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
-- leader. If nobody leads any more, returns `false`. The first call reports the current leader, or
-- waits until there is a leader. Several coroutines may call one observer. Each change is returned
-- to one of them.
-- @tparam[opt] seconds timeout time to wait. 0: do not wait for a change; the call takes up to
--   0.25 s if it must ask etcd whether there was one. nil: no limit; the call waits also while etcd
--   is unreachable. But if etcd has never answered this client, it fails with `unavailable` as
--   `client:lock` does
-- @treturn string|false the leader's value; `false`, without key and token: nobody leads
-- @treturn string the leader's key
-- @treturn token of the leader
-- @fail timeout, unavailable, closed, denied, conflict, forked, context, premature: after `timeout`
--   and `unavailable` (etcd is unreachable) the program may call `next` again
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
    if ok and is_unreported(self) then
      local leader = self._leader
      self._reported = leader
      if not leader then
        return false
      end
      return leader.value, leader.key, leader.token
    elseif not ok and not may_go_on(self, code, left) then
      return nil, message, code
    end
  until left <= 0
  return fail_at_timeout(self, timeout)
end

-- Returns true if the observer knows a leader; false if nobody leads, or the last read has failed;
-- nil if the observer has ended.
function Observer:_knows_leader()
  if not self._watcher or not self._watcher:changes() then
    return nil
  end
  return self._leader ~= false and not self._failure
end

-- Calls `next`, for the loop `for value, key, token in observer do`. The loop ends when the
-- observer is closed, or the nginx worker exits (`premature`). Any other failure is raised.
function Observer:__call()
  if not coroutines.can_yield_in_pcall and runtime.loop(self._client._wakeups.chosen) then
    check.raise("observer: a for loop cannot wait here in Lua 5.1; call observer:next()")
  end
  local value, key, token = self:next()
  if value == nil and token ~= "closed" and token ~= "premature" then
    check.raise(key)
  end
  return value, key, token
end

--- Closes the observer: every later call fails with `closed`, also a call that waits now. `close`
-- may be repeated. Lua 5.4 closes the observer at the end of `for … in election:observe() do`, also
-- after `break`. In other versions of Lua the observer is closed when Lua collects it.
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
    _reads = 0, -- number of answers that were used
    -- The last leader that `next` has returned; false: it has returned none, or that nobody leads.
    _reported = false,
    _changes_read = 0, -- number of changes that the watch had reported before _leader was read
    _read_at = 0, -- time (core.now) of the next read if no change is reported
    _failure = nil, -- message of the last read if it failed with "unavailable"; else nil
  }, Observer)
  if client._metrics then
    client._metrics:add_observer(self, election._full_name)
  end
  return self
end

return Observer
