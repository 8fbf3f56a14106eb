--- A lock that was acquired: its state, its release and its loss.
-- @classmod lock
-- @alias Lock
local check = require "etcdlock.check"
local format_number = require("etcdlock.text").format_number
local guarded = require "etcdlock.guarded"
local quote = require("etcdlock.text").quote
local runtime = require "etcdlock.wait.runtime"
local waits = require "etcdlock.wait.waits"

local Lock = {}
Lock.__index = Lock
Lock.__name = "etcdlock.lock"

-- Seconds for which unlock waits for etcd's confirmation. The release goes on in the background.
local RELEASE_TIMEOUT = 2

-- ---- for other modules ----

-- Returns the seconds for which the hold is valid at least; nil if the lock is not held. Sends no
-- request.
function Lock:_left()
  if self._count == 0 then
    return nil
  end
  runtime.notice_end(self._core, self._binding)
  return self._core:left()
end

-- Returns message, "forked" if another process acquired the lock; nil if not.
function Lock:_find_fork()
  local usable, message, code = self._client._core:usable()
  if not usable and code == "forked" then
    return message, code
  end
end

-- Returns why the lock is not held: message, code.
function Lock:_not_held()
  local message, code = self:_find_fork()
  if code then
    return message, code
  end
  local reason, details = self._core:loss()
  if reason == "closed" then
    return string.format("lock %s: the client was closed", quote(self:name())), "closed"
  elseif reason then
    return string.format("lock %s was lost: %s", quote(self:name()), details), "lost"
  elseif self._core:is_outlived() then
    local text = "lock %s ended with the nginx request that held it"
    return text:format(quote(self:name())), "not_held"
  end
  return string.format("lock %s is not held", quote(self:name())), "not_held"
end

-- Raises unless the lock is that of a leader.
function Lock:_check_leader(where)
  if self._mode ~= "leader" then
    check.raise(string.format("%s: lock %s is not a leader's; get one by election:campaign", where,
      quote(self:name())))
  end
end

-- ---- state ----

--- Tells whether the lock is held now. Sends no request, and while the lock is held takes no mutex.
-- @treturn[1] true
-- @treturn[1] seconds for which the hold is valid at least
-- @treturn[2] false
-- @treturn[2] code `lost`, `not_held`, `closed` or `forked`
function Lock:held()
  local left = self:_left()
  if left then
    return true, left
  end
  self._client._loss_listeners:call_due()
  self._client._events:deliver()
  local _, code = self:_not_held()
  return false, code
end

--- Returns the seconds for which the hold is valid at least. Sends no request.
-- @treturn seconds 0 if the lock is not held
-- @fail never
function Lock:remaining()
  return self:_left() or 0
end

--- Returns the fencing token: the create_revision of the lock's key. The token of a later hold is
-- never smaller; if another client has that hold, its token is larger. A resource that remembers
-- the largest token can refuse a late write of an earlier holder. Owners of one client that hand
-- the lock to each other share a token. Of readers and permits, several tokens are valid at a time.
-- @treturn token
-- @fail never
function Lock:token()
  return self._core:token()
end

--- Returns the number of `unlock` calls after which the lock is released.
-- @treturn count 0 after the last one
-- @fail never
function Lock:count()
  return self._count
end

--- Returns the name of the lock, without the client's prefix.
-- @treturn string for a `multi_lock`: the names, with spaces between them
-- @fail never
function Lock:name()
  return self._acquisition.name
end

--- Returns the names of the lock, without the client's prefix.
-- @treturn {string,...} one name, except for a `multi_lock`
-- @fail never
function Lock:names()
  return { (table.unpack or unpack)(self._acquisition.names) } -- luacheck: ignore unpack
end

--- The kinds of lock that `lock:mode` returns.
-- @table mode
-- @field lock a lock of `client:lock`
-- @field read a read lock, or a write lock after `lock:downgrade`
-- @field write a write lock
-- @field permit a permit of a semaphore
-- @field multi a lock of several names
-- @field leader the lock of an election's leader

--- Returns the kind of lock.
-- @treturn mode
-- @fail never
function Lock:mode()
  return self._mode
end

--- Returns the lock's key in etcd.
-- @treturn string for a `multi_lock`: the key of its first name
-- @fail never
function Lock:key()
  return self._core:key()
end

--- Returns the lease ID of the lock's key.
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

-- ---- release ----

-- Releases the core lock. Returns true if it was held.
local function release(self)
  local client, core_lock = self._client, self._core
  local was_held = core_lock:release()
  client._loss_listeners:remove(self, not was_held)
  if was_held and client._events.is_on then
    client._events:report_released(self, core_lock:held_for()) -- while the request is on its way
  end
  return was_held
end

-- Waits until etcd has confirmed the release: true | nil, message, code. Where no wait is possible,
-- returns true at once.
local function await_release(self)
  local client = self._client
  if runtime.refusal(client._wakeups.chosen) then
    return true
  end
  local released, message, code = client:_await(waits.Released, {
    object = self._core, binding = self._binding,
    limit = client:_find_outage() and 0 or RELEASE_TIMEOUT,
  })
  if released == nil then
    local text = "lock %s: etcd has not confirmed the release yet; it goes on"
    return nil, text:format(quote(self:name())), "unavailable"
  end
  return released, message, code
end

--- Decrements the count, and at 0 releases the lock: the client deletes its key, or hands it to the
-- next waiter of the same client. The call waits up to 2 s for etcd's confirmation. Where no wait
-- is possible (in some phases of nginx), it returns true at once, and the request is on its way.
--
-- At count 0 the lock counts as released when the call starts, whatever the result. The call never
-- deletes the key of another client, so it may be repeated. In Lua 5.4, a `local lock <close>` is
-- released at the end of its scope. If the lock ended with its nginx request, the call returns
-- true.
-- @treturn true
-- @fail not_held, lost, or a request's: `not_held` if the lock was released before, `lost` if it
--   was lost before, `unavailable` if etcd has not confirmed the release within 2 s. The release
--   then goes on in the background
-- @raise never
function Lock:unlock()
  if self._count == 0 then
    return nil, string.format("lock %s is not held", quote(self:name())), "not_held"
  end
  local message, code = self:_find_fork()
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
  self._client._held_locks:remove(self)
  self._client._loss_listeners:disarm(self)
  local released
  if release(self) then
    released, message, code = await_release(self)
  elseif self._core:is_outlived() then
    released = true
  else
    message, code = self:_not_held()
  end
  runtime.unbind(self._client._wakeups, self._binding)
  if released then
    return true
  end
  self._client._events:deliver()
  return nil, message, code
end

--- Gives up the leadership: `unlock` for a leader. If etcd did not answer a request of `campaign`
-- in time, it may apply that request after `resign`. Observers then see this candidate as leader
-- again, with another token, until its client has found and deleted that key. This takes at most
-- about 8 s while etcd answers.
-- @treturn true
-- @fail as lock:unlock
-- @raise for a lock that is not a leader's
function Lock:resign()
  self:_check_leader "lock:resign"
  return self:unlock()
end

--- Sets the time at which the hold ends by itself, and replaces `max_hold`.
-- @tparam seconds seconds time from now, more than 0
-- @treturn true
-- @fail lost, not_held, closed, forked
-- @raise for a wrong type, for 0 or less, for inf
function Lock:expire(seconds)
  check.positive_seconds("lock:expire", "seconds", seconds)
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

-- ---- loss ----

--- Registers a function that is called once if the lock is lost. It never runs by itself or on
-- another thread. A later call of the same client runs it: `held` or `check` of a lost lock, any
-- call that takes a lock, or a call that waits (except `unlock`). If the lock is lost already,
-- `on_lost` runs it at once.
--
-- Such a call runs the functions of all lost locks, in the order in which the locks got their first
-- one. If a function raises an error, the call runs the others and then raises the first error. In
-- nginx, a call runs only the functions of locks of its own request, and of locks that belong to no
-- request.
-- @tparam listener fn called with the lock and the reason
-- @treturn true
-- @fail not_held: if the lock was released before
-- @raise for a wrong type
function Lock:on_lost(fn)
  check.callable("lock:on_lost", "fn", fn)
  if self._count == 0 then
    return nil, string.format("lock %s is not held", quote(self:name())), "not_held"
  end
  self._client._loss_listeners:add(self, fn)
  return true
end

--- Waits until the lock is lost.
-- @tparam[opt] seconds timeout time to wait; nil: no limit
-- @treturn reason
-- @fail timeout, not_held, closed, forked, context, premature: `not_held` if the lock was released
--   instead, also during the wait
-- @raise for a wrong type
function Lock:wait_lost(timeout)
  check.seconds("lock:wait_lost", "timeout", timeout)
  local message, code = self:_find_fork()
  if not code then
    message, code = runtime.refusal(self._client._wakeups.chosen)
  end
  if code then
    return nil, message, code
  end
  local ended
  ended, message, code = self._client:_await(waits.Ended, { object = self._core, limit = timeout })
  if ended == false then
    return nil, message, code
  elseif not ended then
    local text = "lock %s was not lost within %s s"
    return nil, text:format(quote(self:name()), format_number("%g", timeout)), "timeout"
  end
  self._client._loss_listeners:call_due()
  message, code = self:_not_held()
  if code == "lost" then
    return (self._core:loss())
  end
  return nil, message, code
end

-- ---- guarded access ----

-- guarded.lua describes them.
Lock.check = guarded.check
Lock.put = guarded.put
Lock.delete = guarded.delete
Lock.get = guarded.get
Lock.txn = guarded.txn
Lock.downgrade = guarded.downgrade
Lock.proclaim = guarded.proclaim

check.methods(Lock, "lock")

-- Creates the lock of a core lock that is held, for acquire.lua.
function Lock.new(client, core_lock, acquisition, binding)
  return setmetatable({
    _core = core_lock,
    _client = client,
    _acquisition = acquisition, -- of acquire.lua
    _mode = acquisition.mode, -- "read" after lock:downgrade
    -- True for a write lock until etcd has confirmed lock:downgrade.
    _may_downgrade = acquisition.mode == "write",
    -- The value of a leader; nil if it is unknown whether etcd has the last one.
    _leader_value = acquisition.leader_value,
    _sharers = nil, -- set of held_locks.lua that contains this lock
    _max_hold = acquisition.max_hold, -- seconds; lock:expire changes it
    _binding = binding, -- of runtime.bind
    _count = 1, -- number of unlock calls that are due
    _run = nil, -- of runtime.run, while the with_lock that took the lock runs its function
    _listeners = nil, -- list of functions of on_lost that were not called yet
    _loss_number = nil, -- wake-up number by which the core reports the loss
  }, Lock)
end

return Lock
