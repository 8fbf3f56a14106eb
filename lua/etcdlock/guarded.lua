--- What the holder of a lock does in etcd: it happens only while the lock is
-- his. Methods of a lock.
-- @submodule lock
local check = require "etcdlock.check"
local lock_options = require "etcdlock.lock_options"
local quote = require("etcdlock.characters").quote

local M = {}

-- Sends what add(txn) makes, guarded by the lock: results, nil, nil, revision | nil,
-- message, code, whether it is certain that nothing was written.
local function send(self, add)
  if not self:_left() then
    return nil, self:_not_held()
  end
  local txn = self._client._core:txn()
  add(txn)
  local ok, held, results, extra = self._client:_ask(txn)
  if ok and held then
    return results, nil, nil, extra
  elseif (ok or extra) and not self:_left() then -- it has ended, and nothing was written
    return nil, self:_not_held()
  elseif not ok then
    return nil, held, results, extra
  end
  -- Not to be reached: who reads an answer like this latches the loss before.
  return nil, string.format("lock %s was lost: its key is gone", quote(self:name())), "lost"
end

-- Runs operations that happen only while the lock is ours: etcd compares the
-- create_revision of our key with our token in the same transaction.
local function guarded(self, add)
  return send(self, function(txn)
    txn:guard_lock(self._core)
    add(txn)
  end)
end

-- The same of operations that write nothing. Who lets go meanwhile may leave the key, as it
-- is, to another owner of the client, which no write of his allows while it is out.
local function guarded_read(self, add)
  local results, message, code = guarded(self, add)
  if results and not self:_left() then
    return nil, self:_not_held()
  end
  return results, message, code
end

--- Tells the same as `held`, confirmed by etcd.
-- @function lock:check
-- @treturn true
-- @treturn seconds for which that may be relied on
-- @treturn revision at which it was
-- @fail lost, not_held, or a request's
function M:check()
  local results, message, code, revision = guarded(self, function(txn)
    txn:get(self:key())
  end)
  if not results then
    self._client._losses:tell()
    return nil, message, code
  end
  local held, left = self:held()
  if held then
    return true, left, revision
  end
  return nil, self:_not_held()
end

-- Raises under a read hold: several clients may have one at a time.
local function check_may_write(self, where)
  if self._mode ~= "read" then
    return
  end
  local text = "%s: a read hold of lock %s cannot write; take a write lock (client:write_lock)"
  if self._request.mode == "write" then
    text = "%s: lock:downgrade has made lock %s a read hold, which cannot write;"
      .. " write before lock:downgrade, or take a new write lock"
  end
  check.raise(string.format(text, where, quote(self:name())))
end

--- Writes a key of etcd, if the lock is still ours when etcd applies it.
-- @function lock:put
-- @tparam string key taken as it is, without the client's prefix
-- @tparam string value
-- @treturn true
-- @fail lost, not_held, or a request's: with `unavailable` it may have been written, or be
--   written later, but never after a later write of the same hold
-- @raise for a wrong type, under a read hold
function M:put(key, value)
  check.string("lock:put", "key", key)
  check.string("lock:put", "value", value)
  check_may_write(self, "lock:put")
  local results, message, code = guarded(self, function(txn)
    txn:put(key, value)
  end)
  return results and true or nil, message, code
end

--- Deletes a key of etcd, if the lock is still ours when etcd applies it.
-- @function lock:delete
-- @tparam string key taken as it is, without the client's prefix
-- @treturn true
-- @treturn boolean whether the key was there
-- @fail as lock:put
-- @raise for a wrong type, under a read hold
function M:delete(key)
  check.string("lock:delete", "key", key)
  check_may_write(self, "lock:delete")
  local results, message, code = guarded(self, function(txn)
    txn:delete(key)
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

--- Reads a key of etcd, if the lock is still ours at that moment.
-- @function lock:get
-- @tparam string key taken as it is, without the client's prefix
-- @treturn[1] string its value
-- @treturn[1] revision at which it was changed last
-- @treturn[2] false there is no such key
-- @fail lost, not_held, or a request's
-- @raise for a wrong type
function M:get(key)
  check.string("lock:get", "key", key)
  local results, message, code = guarded_read(self, function(txn)
    txn:get(key)
  end)
  if not results then
    return nil, message, code
  end
  return read(results[1])
end

local OPERATIONS = { put = 3, get = 2, delete = 2 }

-- Do they write anything?
local function check_operations(list)
  local writes = false
  if type(list) ~= "table" or #list == 0 then
    check.raise('lock:txn: wanted a list of operations like { "put", key, value }')
  end
  for i = 1, #list do -- not ipairs, which a hole would stop
    local op = list[i]
    local size = type(op) == "table" and OPERATIONS[op[1]]
    if not size then
      check.raise(string.format('lock:txn: operation %d, wanted { "put", key, value },'
        .. ' { "get", key } or { "delete", key }', i))
    end
    for field = 2, size do
      check.string("lock:txn", string.format("operation %d, field %d", i, field), op[field])
    end
    writes = writes or op[1] ~= "get"
  end
  return writes
end

--- Does several things at once, all or nothing, if the lock is still ours. No key may be
-- changed twice.
-- @function lock:txn
-- @tparam {operation,...} list each of them `{ "put", key, value }`, `{ "get", key }` or
--   `{ "delete", key }`
-- @treturn {boolean|string,...} with true for each put, the value or false for a get,
--   and whether the key was there for a delete
-- @fail as lock:put
-- @raise for an operation that is none, a wrong type, under a read hold if one of them writes
function M:txn(list)
  local writes = check_operations(list)
  if writes then
    check_may_write(self, "lock:txn")
  end
  local run = writes and guarded or guarded_read
  local results, message, code = run(self, function(txn)
    for _, op in ipairs(list) do
      txn[op[1]](txn, op[2], op[3])
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

--- Says something else to all who look or observe, only while it leads. What it says already
-- is no news to them.
-- @function lock:proclaim
-- @tparam string value up to 4096 bytes
-- @treturn true
-- @fail lost, not_held, or a request's: with `lost` and `not_held` nothing was said; with
--   `unavailable` it may have been said, or be said later, but never after something that it
--   says later, or after its end; with `context` nothing was sent
-- @raise for a lock that is no leader's, a wrong type
function M:proclaim(value)
  self:_check_leader "lock:proclaim"
  local ok, refusal, refusal_code = lock_options.value("lock:proclaim", value)
  if not ok then
    return nil, refusal, refusal_code
  end
  local results, message, code, is_definite = send(self, function(txn)
    txn:proclaim(self._core, value)
  end)
  if results then
    self._says = value
  elseif not is_definite then
    self._says = nil -- one or the other
  end
  return results and true or nil, message, code
end

-- From here on the rest of the hold is a reader's.
local function become_reader(self)
  local holds = self._client._holds
  self._core:downgrade()
  holds:remove(self)
  self._mode = "read"
  holds:add(self)
end

--- Makes a writer's lock a reader's: readers are let in beside it, no other writer comes in
-- between, and token and key stay. It counts as a reader's from the moment of the call, even
-- where etcd has not confirmed it (`unavailable`): then repeat it. From then on `put`, `delete`
-- and a `txn` that writes raise. An earlier write of unknown outcome is not applied after readers
-- were let in.
-- @function lock:downgrade
-- @treturn true
-- @fail lost, not_held, or a request's: `invalid` while several `unlock` calls are due,
--   because all of them count on it
-- @raise for a lock that is no writer's
function M:downgrade()
  if self._mode ~= "write" and self._mode ~= "read" then
    check.raise(string.format("lock:downgrade: lock %s is no writer's, wanted one of write_lock",
      quote(self:name())))
  elseif not self:_left() then
    return nil, self:_not_held()
  elseif not self._may_downgrade then
    return true
  elseif self._count > 1 then
    local text = "lock %s is held %d times by its owner, and would end as a writer's for all"
    return nil, text:format(quote(self:name()), self._count), "invalid"
  end
  if self._mode == "write" then
    become_reader(self)
  end
  local results, message, code = send(self, function(txn)
    txn:downgrade(self._core)
  end)
  if not results then
    return nil, message, code
  end
  self._may_downgrade = false
  return true
end

return M
