--- A lock that was acquired: its state, its release and its loss.
-- @classmod lock
-- @alias Lock
local check = require "etcdlock.check"
local format_number = require("etcdlock.text").format_number
local guarded = require "etcdlock.guarded"
local names = require "etcdlock.names"
local runtime = require "etcdlock.wait.runtime"
local waits = require "etcdlock.wait.waits"

local Lock = {}
Lock.__index = Lock
Lock.__name = "etcdlock.lock"

-- Seconds for which unlock waits for etcd's confirmation. After that the release goes on in the
-- background.
local RELEASE_TIMEOUT = 2

-- Returns the count, and the table whose field `_call` is `call`: the lock or another with_lock
-- call; nil if `call` does not count.
local function find_link(self, call)
  local count, link, outer, inner = self._count, nil, self._call, self
  while outer do
    if outer == call then
      link = inner
    end
    count, outer, inner = count + 1, outer._call, outer
  end
  return count, link
end

-- ---- for other modules ----

-- Returns the seconds for which the hold is valid at least; nil if the lock is not held. Sends no
-- request.
function Lock:_left()
  runtime.notice_end(self._core, self._binding)
  return self._core:left()
end

-- Returns a revision of etcd at which the lock was held. Writes that holders of other clients
-- completed during earlier holds have lower revisions.
function Lock:_held_rev()
  return self._core:held_rev()
end

-- Returns message, "forked" if this process is a forked child and its parent acquired the lock.
-- Otherwise returns nil.
function Lock:_find_fork()
  local usable, message, code = self._client._core:usable()
  if not usable and code == "forked" then
    return message, code
  end
end

-- Returns message, code that tell why the lock is not held.
function Lock:_not_held()
  local message, code = self:_find_fork()
  if code then
    return message, code
  end
  local reason, details = self._core:loss()
  if reason == "closed" then
    return string.format("%s: the client was closed", names.describe_lock(self)), "closed"
  elseif reason then
    return string.format("%s was lost: %s", names.describe_lock(self), details), "lost"
  elseif self._core:is_outlived() then
    local text = "%s ended with the nginx request that held it"
    return text:format(names.describe_lock(self)), "not_held"
  end
  return string.format("%s is not held", names.describe_lock(self)), "not_held"
end

-- Raises unless the lock is the lock of an election's leader.
function Lock:_check_leader(where)
  if self._mode ~= "leader" then
    check.raise(string.format("%s: %s is not a leader's; get one by election:campaign", where,
      names.describe_lock(self)))
  end
end

-- ---- state ----

--- Tells whether the lock is held now. Sends no request.
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

--- Returns the fencing token: the create_revision of the lock's key. A later hold never has a
-- smaller token, and a later hold of another client has a larger one. Exception: several readers,
-- or several permits of a semaphore, are held at the same time, so a resource must accept their
-- tokens in any order. If a holder stores its token in a resource [before it reads
-- there](tutorial.md#6-fencing), the resource can refuse late writes of earlier holders. Owners of
-- one client that [hand the lock off](#handoff) to each other have the same token.
-- @treturn token
-- @fail never
function Lock:token()
  return self._core:token()
end

--- Returns the number of `unlock` calls after which the lock is released.
-- @treturn count 0 after the last `unlock`
-- @fail never
function Lock:count()
  return (find_link(self))
end

--- Returns the name of the lock, without the client's prefix.
-- @treturn string the name; for a `multi_lock`, the names with spaces between them (cut to 80
--   bytes, then `...`)
-- @fail never
function Lock:name()
  return self._name
end

--- Returns the names of the lock, without the client's prefix.
-- @treturn {string,...} one name, except for a `multi_lock`
-- @fail never
function Lock:names()
  return { (table.unpack or unpack)(self._names or { self._name }) } -- luacheck: ignore unpack
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
-- @treturn string the key; for a `multi_lock`, the key below its first name
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
    state = string.format("held, token %.0f, count %d", self:token(), self:count())
  else
    local _, code = self:_not_held()
    state = code
  end
  return string.format("etcdlock.lock %s (%s)", names.quote(self), state)
end

-- ---- the count ----
-- A debug hook may raise an error in each instruction (Ctrl-C, a limit of instructions). So one
-- assignment changes the count, and all other steps can be repeated.

-- Ends the hold, and has the core release the key. Returns whether the lock was held: after a
-- complete call, a repeated one returns false.
local function release(self)
  local client = self._client
  if self._loss_number then
    client._loss_listeners:disarm(self)
  end
  local was_held = self._core:release()
  client._held_locks:remove(self) -- not earlier: during the hold, calls of its owner must find it
  if self._listeners then
    client._loss_listeners:remove(self)
  end
  if was_held and client._events.is_on then
    client._events:report_released(self, self._core:held_for())
  end
  return was_held
end

-- Undoes a `lock` call, or the with_lock call `call`. Ends the hold if nothing else counts. Does
-- not wait. Returns the count before, and whether the lock was held then. The count is 0 if there
-- was nothing to undo, and in a forked child. If an error has ended this function, it can be called
-- again.
function Lock:_leave(call)
  local count, link = find_link(self, call)
  if count == 0 or call and not link then
    return 0, false
  end
  local was_held = count > 1 and self._core:left() ~= nil
  if not was_held and self:_find_fork() then
    return 0, false
  elseif count == 1 then
    was_held = release(self)
  end
  if call then
    link._call = call._call
  else
    self._count = self._count - 1
  end
  return count, was_held
end

-- ---- release ----

-- Waits until etcd has confirmed the release, and returns true. If a wait is impossible here,
-- returns true at once. If etcd has not confirmed in time, or the release has failed, returns a
-- false value, message, code.
local function await_release(self)
  local client = self._client
  local loop, refusal = runtime.loop(client._wakeups.chosen)
  if refusal then
    return true
  end
  local limit = client._fail_fast and client:_find_outage() and 0 or RELEASE_TIMEOUT
  local released, message, code =
    client:_await(waits.Released, loop, self._core, limit, self._binding)
  if released == nil then
    local text = "%s: etcd has not confirmed the release yet; it goes on"
    return nil, text:format(names.describe_lock(self)), "unavailable"
  end
  return released, message, code
end

-- Completes lock:unlock or a with_lock call, and returns the results of lock:unlock. The arguments
-- are the results of Lock:_leave. If that has released the lock, waits for etcd's confirmation.
function Lock:_confirm(count, was_held)
  local is_released, message, code
  if count > 1 and was_held then
    return true
  elseif count == 0 then
    message, code = self:_find_fork()
    return nil, message or string.format("%s is not held", names.describe_lock(self)),
      code or "not_held"
  elseif was_held then
    is_released, message, code = await_release(self)
  elseif self._core:is_outlived() then
    is_released = true
  else
    message, code = self:_not_held()
  end
  if count == 1 and self._binding then
    runtime.unbind(self._client._wakeups, self._binding)
  end
  if is_released then
    return true
  end
  self._client._events:deliver()
  return nil, message, code
end

--- Decrements the count. If the count is then 0, the call releases the lock: the client deletes the
-- lock's key, hands it to the next waiter of the same client, or keeps it, for `linger` or for
-- other readers that share it. The call waits up to 2 s for etcd's confirmation. If a wait is
-- impossible, as in some phases of nginx, the call sends the request and returns true at once.
--
-- At count 0 the lock counts as released from the start of the call, whatever the call returns. The
-- call never deletes the key of another client, so it may be repeated. In Lua 5.4, a
-- `local lock <close>` is unlocked at the end of its scope. If the lock was released because its
-- nginx request ended, the first `unlock` returns true.
-- @treturn true
-- @fail not_held, lost, or a request error: `not_held` if the lock was released before the call;
--   `lost` if it was lost before; `unavailable` if etcd has not confirmed the release within 2 s.
--   The release then goes on in the background
-- @raise never
function Lock:unlock()
  return self:_confirm(self:_leave())
end

--- Gives up the leadership: `unlock` for a leader. If etcd did not answer a request of `campaign`
-- in time, etcd may apply that request after `resign`, and so create another key. Observers may
-- then report this candidate as leader again, with another token, until its client has found and
-- deleted that key. While etcd answers, this takes at most about 8 s.
-- @treturn true
-- @fail as lock:unlock
-- @raise for a lock that is not a leader's
function Lock:resign()
  self:_check_leader "lock:resign"
  return self:unlock()
end

--- Sets the time at which the hold ends by itself. This time replaces the option `max_hold`.
-- @tparam seconds seconds time from now, more than 0
-- @treturn true
-- @fail lost, not_held, closed, forked
-- @raise for 0 or less, for inf
function Lock:expire(seconds)
  check.positive_seconds("lock:expire", "seconds", seconds)
  if not self:_left() or not self._core:expire(seconds) then
    return nil, self:_not_held()
  end
  self._max_hold = seconds
  return true
end

function Lock:__close()
  self:unlock()
end

-- ---- loss ----

--- Registers a function that is called once if the lock is lost. The function never runs by itself
-- or on another thread, but in a later call of the same client: `held`, `check` or `wait_lost` of a
-- lost lock, any call that takes a lock, or a call that waits in an event loop, or blocks for more
-- than 0.2 s (not for a release, and not `client:close`). If the lock is lost already, `on_lost`
-- runs the function at once.
--
-- Such a later call runs the `on_lost` functions of all lost locks. The locks come in the order in
-- which their first functions were registered. If a function raises an error, the call runs the
-- remaining functions and then raises the first error. In nginx, a call runs only the functions of
-- locks that end with its own nginx request, or with none.
-- @tparam listener fn called with the lock and the reason
-- @treturn true
-- @fail not_held: if the lock was released before
function Lock:on_lost(fn)
  check.callable("lock:on_lost", "fn", fn)
  if self:count() == 0 then
    return nil, string.format("%s is not held", names.describe_lock(self)), "not_held"
  end
  self._client._loss_listeners:add(self, fn)
  return true
end

--- Waits until the lock is lost.
-- @tparam[opt] seconds timeout time to wait; nil: no limit
-- @treturn reason
-- @fail timeout, not_held, closed, forked, context, premature, nomem: `not_held` if the lock was
--   released before the call or during the wait
-- @raise for a negative `timeout`
function Lock:wait_lost(timeout)
  check.seconds("lock:wait_lost", "timeout", timeout)
  local message, code = self:_find_fork()
  local loop, ended
  if not code then
    loop, message, code = runtime.loop(self._client._wakeups.chosen)
  end
  if code then
    return nil, message, code
  end
  ended, message, code = self._client:_await(waits.Ended, loop, self._core, timeout)
  if ended == false then
    return nil, message, code
  elseif not ended then
    local text = "%s was not lost within %s s"
    return nil, text:format(names.describe_lock(self), format_number("%g", timeout)), "timeout"
  end
  self._client._loss_listeners:call_due()
  message, code = self:_not_held()
  if code == "lost" then
    return (self._core:loss())
  end
  return nil, message, code
end

-- ---- guarded access ----

-- guarded.lua describes these methods.
Lock.check = guarded.check
Lock.put = guarded.put
Lock.delete = guarded.delete
Lock.get = guarded.get
Lock.txn = guarded.txn
Lock.downgrade = guarded.downgrade
Lock.proclaim = guarded.proclaim

check.methods(Lock, "lock")

-- ---- for acquire.lua ----

-- Creates a lock that is not held yet. The constructor has the 7 fields that each lock needs,
-- because a Lua table with more than 8 fields takes twice the memory. Other fields are set only if
-- they are not nil:
--   _names, _full_names  mode "multi": lists of the names, without and with the client's prefix
--   _permits         mode "permit": number of permits of the semaphore
--   _leader_value    mode "leader": the leader's value in etcd; nil if the outcome of the last
--                    `proclaim` is unknown
--   _timeout         seconds; 0: a try; nil: no limit
--   _default_timeout seconds; the timeout if neither the call nor the client has one
--   _max_hold        seconds; lock:expire changes it
--   _linger          seconds
--   _value           the option `value`; nil after the grant
--   _given_owner     the option `owner`; nil: the owner is the running coroutine
--   _call            the last with_lock call (a Call of acquire.lua) that has taken the lock and
--                    has not ended. Its field `_call` is the one before. Of a lock that is not held
--                    yet: the with_lock call that takes it
--   _started_at      time of the call (core.now); nil: neither a log nor metrics
--   _stops_loop      true if a wait for this lock would stop an nginx worker or an event loop
--   _must_share      true: this read lock must not wait behind a writer, see must_share in
--                    held_locks.lua
--   _holder_label, _holder_read_at  value of the holder's key that the core has read last, and when
--                    the core has read it (core.now)
--   _binding         result of runtime.bind; nil outside nginx
--   _sharers         set of the read locks, or permits, of this name that the client holds,
--                    including this lock, see HeldLocks:add; nil in other modes
--   _downgrade       after lock:downgrade: "unconfirmed", or "confirmed" by etcd
--   _waits           see HeldLocks:begin_wait
--   _listeners       list of the `on_lost` functions that were not called yet
--   _loss_number     wake number that the core pushes when the hold ends; nil: none is armed
--   _unread          see note_read in guarded.lua
function Lock.new(client, mode, name)
  return setmetatable({
    _client = client,
    -- "lock", "read", "write", "permit", "multi" or "leader"; "read" after lock:downgrade
    _mode = mode,
    -- Without the client's prefix; mode "multi": first the list of names, then a text for messages.
    _name = name,
    -- With the client's prefix; mode "multi": the names joined by NUL, as the core takes them.
    _full_name = nil,
    _owner = nil, -- see HeldLocks.identify_owner
    _core = nil, -- the core's lock
    -- Number of lock calls minus number of unlock calls. The count of the lock is this number plus
    -- the number of with_lock calls (`_call`).
    _count = 1,
  }, Lock)
end

return Lock
