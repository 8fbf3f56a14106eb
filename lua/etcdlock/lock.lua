--- A lock that was acquired: what its holder can ask, and how it lets go.
local check = require "etcdlock.check"
local loops = require "etcdlock.loops"

local Lock = {}
Lock.__index = Lock
Lock.__name = "etcdlock.lock"

-- How long unlock waits for etcd to confirm; the release goes on behind it.
local RELEASE_WAIT = 2
-- How long the calls that ask etcd something may take.
local CALL_WAIT = 5

local LOSS_TEXT = {
  expired = "no proof came in time that its lease lives",
  revoked = "its lease ended in etcd",
  deleted = "its key was deleted",
  replaced = "its key was overwritten",
  max_hold = "max_hold has passed",
  cluster_changed = "another cluster answers, or an earlier state of this one",
}

-- ---- state ----

--- Why this lock isn't held: message, code.
local function not_held(self)
  local usable, message, code = self._client._core:usable()
  if not usable and code == "forked" then
    return message, code
  end
  local loss, trouble = self._core:loss()
  if loss == "closed" then
    return string.format("lock %q: the client was closed", self._name), "closed"
  elseif loss then
    local why = LOSS_TEXT[loss] .. (trouble and ": " .. trouble or "")
    return string.format("lock %q was lost: %s", self._name, why), "lost"
  end
  return string.format("lock %q is not held", self._name), "not_held"
end

--- Is the hold alive right now? Asks nobody. For client.lua and here.
function Lock:_left()
  return self._count > 0 and self._core:left() or nil
end

--- Is it still ours? Local: no RPC, no mutex.
-- @return true, seconds for which that may be relied on
-- @return false, code: "lost", "not_held", "closed", "forked"
function Lock:held()
  local left = self:_left()
  if left then
    return true, left
  end
  self._client:_tell_losses()
  local _, code = not_held(self)
  return false, code
end

--- Seconds for which it may be relied on; 0 if it isn't held.
function Lock:remaining()
  return self:_left() or 0
end

--- The fencing token: the create_revision of our key. It grows from holder to
-- holder; a resource that remembers the largest one can refuse a late holder.
function Lock:token()
  return self._core:token()
end

--- How many unlocks are due: 0 after the last.
function Lock:count()
  return self._count
end

--- The name it was asked for by, without the client's prefix.
function Lock:name()
  return self._name
end

--- Its key in etcd.
function Lock:key()
  return self._core:key()
end

--- Its lease, in hex.
function Lock:lease()
  return self._core:lease()
end

function Lock:__tostring()
  local state
  if self:_left() then
    state = string.format("held, token %.0f, count %d", self:token(), self._count)
  else
    local _, code = not_held(self)
    state = code
  end
  return string.format("etcdlock.lock %q (%s)", self._name, state)
end

-- ---- letting go ----

--- Lets go of the core's lock, which is no news of a loss: was it held?
local function release(self)
  local hub = self._client._hub
  if self._news then
    self._core:disarm("ended", self._news)
    hub:forget_news(self._news)
  end
  local was_held = self._core:release()
  if was_held then
    self._client._watched[self] = nil
  else
    hub.is_untold = true -- we may just have taken the news back
  end
  return was_held
end

--- Lets go once; the last of as many calls as there were locks releases it.
-- Never raises, can't free another's lock, and waits 2 s at most: a release
-- that takes longer goes on by itself.
-- @return true | nil, message, code: "not_held", "lost", "closed", "forked",
--   or what etcd said ("unavailable": not confirmed yet)
function Lock:unlock()
  if self._count == 0 then
    return nil, string.format("lock %q is not held", self._name), "not_held"
  end
  local usable, message, code = self._client._core:usable()
  if not usable and code == "forked" then
    return nil, message, code
  end
  self._count = self._count - 1
  if self._count > 0 then
    if self._core:left() then
      return true
    end
    return nil, not_held(self)
  end
  self._client:_forget(self)
  if not release(self) then
    loops.unleash(self._client._hub, self._leash)
    return nil, not_held(self)
  end
  local released
  released, message, code = self._client:_await {
    poll = function(seconds)
      return self._core:wait_released(seconds)
    end,
    arm = function(id, served)
      return self._core:arm("released", id, served)
    end,
    is_deaf = true,
    limit = loops.refusal(self._client._hub) and 0 or RELEASE_WAIT,
    leash = self._leash,
  }
  loops.unleash(self._client._hub, self._leash)
  if released then
    return true
  elseif released == nil then
    local text = "lock %q: etcd has not confirmed the release yet; it goes on"
    return nil, text:format(self._name), "unavailable"
  end
  return nil, message, code
end

--- Sets the hard end of the hold to `seconds` from now, whatever max_hold was.
-- @return true | nil, message, code as for held
function Lock:expire(seconds)
  check.seconds("lock:expire", "seconds", seconds)
  if seconds == nil or seconds == 0 then
    check.raise("lock:expire: seconds, wanted a number above 0")
  end
  if not self._core:expire(seconds) then
    return nil, not_held(self)
  end
  self._max_hold = seconds
  return true
end

--- Lua 5.4: `local lock <close> = client:lock(name)`.
function Lock:__close()
  self:unlock()
end

-- ---- being told ----

--- Calls the handlers of a lock that was lost; for client.lua.
function Lock:_tell_loss()
  local handlers, loss = self._handlers, self._core:loss()
  if not handlers or not loss or loss == "closed" then
    return
  end
  self._handlers = nil
  self._client._watched[self] = nil
  local failed, failure
  for _, handler in ipairs(handlers) do
    local ok, err = pcall(handler, self, loss)
    if not ok and not failed then
      failed, failure = true, err
    end
  end
  if failed then
    error(failure, 0)
  end
end

--- Has the hub told of the loss, for the handlers; for client.lua.
function Lock:_watch_loss()
  if not self._news then
    local hub = self._client._hub
    self._news = hub:expect_news()
    if not self._core:arm("ended", self._news, false) then
      hub:forget_news(self._news)
      hub.is_untold = true
    end
  end
end

--- Has fn(lock, reason) called once if the lock is lost: "expired", "revoked",
-- "deleted", "replaced", "max_hold" or "cluster_changed". It runs inside a later call of this
-- client (held or check of a lost lock, asking for a lock, any wait but
-- unlock's), never by itself and never on another thread; at once if the lock
-- is lost already. An error in it is raised from that call, after the other
-- handlers have run. A lease that ends
-- may be seen as "deleted" first: its keys go with it.
function Lock:on_lost(fn)
  check.callable("lock:on_lost", "fn", fn)
  if self._count == 0 then
    return nil, string.format("lock %q is not held", self._name), "not_held"
  end
  self._handlers = self._handlers or {}
  table.insert(self._handlers, fn)
  self._client._watched[self] = true
  self:_left() -- notices an expiry of this moment
  self:_tell_loss()
  return true
end

--- Waits up to `timeout` seconds (nil: for ever) for the lock to be lost.
-- @return the reason | nil, message, code: "timeout", "not_held", "closed"
function Lock:wait_lost(timeout)
  check.seconds("lock:wait_lost", "timeout", timeout)
  local usable, message, code = self._client._core:usable()
  if not usable and code == "forked" then
    return nil, message, code
  end
  message, code = loops.refusal(self._client._hub)
  if message then
    return nil, message, code
  end
  local armed -- one of several, perhaps, that wait for this
  local function disarm()
    if armed then
      self._core:disarm("ended", armed)
    end
  end
  local ended, why, why_code = self._client:_await {
    poll = function(seconds)
      self:_left()
      return self._core:wait_ended(seconds) or nil
    end,
    arm = function(id, served)
      disarm()
      armed = id
      return self._core:arm("ended", id, served)
    end,
    limit = timeout,
  }
  disarm()
  if ended == false then
    return nil, why, why_code
  elseif not ended then
    return nil, string.format("lock %q was not lost within %g s", self._name, timeout), "timeout"
  end
  self._client:_tell_losses()
  message, code = not_held(self)
  if code == "lost" then
    return (self._core:loss())
  end
  return nil, message, code
end

-- ---- guarded access ----

--- Runs operations that happen only while the lock is ours: etcd compares the
-- create_revision of our key with our token in the same transaction.
local function guarded(self, add)
  if not self:_left() then
    return nil, not_held(self)
  end
  local call = self._client._core:call()
  call:guard_lock(self._core)
  add(call)
  local ok, held, results, extra = self._client:_ask(call, CALL_WAIT)
  if not ok then
    return nil, held, results, extra
  elseif not held then
    return nil, string.format("lock %q was lost: its key is gone", self._name), "lost"
  end
  return results
end

--- The same as held(), confirmed by the cluster.
-- @return true, seconds | false, code, message
function Lock:check()
  local results, message, code = guarded(self, function(call)
    call:get(self:key())
  end)
  if not results then
    self._client:_tell_losses()
    return false, code, message
  end
  return self:held()
end

--- Writes key = value in etcd, if the lock is still ours when etcd applies it.
-- The key is taken as it is, without the client's prefix.
-- @return true | nil, message, code: "lost", "not_held", ...; "unavailable"
--   means that it may have been written or not
function Lock:put(key, value)
  check.string("lock:put", "key", key)
  check.string("lock:put", "value", value)
  local results, message, code = guarded(self, function(call)
    call:put(key, value)
  end)
  return results and true or nil, message, code
end

--- Deletes a key, if the lock is still ours when etcd applies it.
-- @return true, whether the key was there | nil, message, code as for put
function Lock:delete(key)
  check.string("lock:delete", "key", key)
  local results, message, code = guarded(self, function(call)
    call:delete(key)
  end)
  if not results then
    return nil, message, code
  end
  return true, results[1] > 0
end

local function read(kvs)
  if kvs[1] then
    return kvs[1].value, kvs[1].mod_revision
  end
  return false
end

--- Reads a key, if the lock is still ours at that moment.
-- @return value, mod_revision | false if there is no such key | nil, message,
--   code
function Lock:get(key)
  check.string("lock:get", "key", key)
  local results, message, code = guarded(self, function(call)
    call:get(key)
  end)
  if not results then
    return nil, message, code
  end
  return read(results[1])
end

local OPERATIONS = { put = 3, get = 2, delete = 2 }

local function check_operations(list)
  if type(list) ~= "table" or #list == 0 then
    check.raise('lock:txn: wanted a list of operations like { "put", key, value }')
  end
  for i, op in ipairs(list) do
    local size = type(op) == "table" and OPERATIONS[op[1]]
    if not size then
      check.raise(string.format('lock:txn: operation %d, wanted { "put", key, value },'
        .. ' { "get", key } or { "delete", key }', i))
    end
    for field = 2, size do
      check.string("lock:txn", string.format("operation %d, field %d", i, field), op[field])
    end
  end
end

--- Does several things at once, all or nothing, if the lock is still ours:
-- lock:txn{ { "put", k, v }, { "get", k }, { "delete", k } }
-- @return a list with true for a put, the value or false for a get, and
--   whether the key was there for a delete | nil, message, code as for put
function Lock:txn(list)
  check_operations(list)
  local results, message, code = guarded(self, function(call)
    for _, op in ipairs(list) do
      call[op[1]](call, op[2], op[3])
    end
  end)
  if not results then
    return nil, message, code
  end
  for i, op in ipairs(list) do
    if op[1] == "get" then
      results[i] = (read(results[i]))
    elseif op[1] == "delete" then
      results[i] = results[i] > 0
    end
  end
  return results
end

check.methods(Lock, "lock")

--- Wraps a core lock that is held. For client.lua only.
function Lock.new(client, core_lock, name, request, leash)
  return setmetatable({
    _core = core_lock,
    _leash = leash,
    _client = client,
    _name = name,
    _owner = request.owner,
    _place = request.place,
    _max_hold = request.max_hold,
    _count = 1,
    _handlers = nil,
  }, Lock)
end

return Lock
