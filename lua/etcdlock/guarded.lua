--- Methods of a lock with which the holder reads and writes in etcd. etcd applies such a read or
-- write only while the lock's key exists.
-- @submodule lock
local check = require "etcdlock.check"
local lock_options = require "etcdlock.lock_options"
local names = require "etcdlock.names"
local quote = require("etcdlock.text").quote
local quote_keys = require("etcdlock.text").quote_keys

local M = {}

-- Sends a transaction that etcd applies only while the lock's key exists. add_operations(txn) adds
-- the guard and the operations. If etcd has applied the transaction, returns the results, nil, nil,
-- and the store revision. Otherwise returns nil, message, code; a fourth result of true means that
-- certainly nothing was written. The message about a failed request names the lock, `method`, which
-- is the name of the call, and `keys`, the list of its keys.
local function send(self, method, keys, add_operations)
  if not self:_left() then
    return nil, self:_not_held()
  end
  local txn = self._client._core:txn()
  add_operations(txn)
  local ok, held, results, extra = self._client:_run_txn(txn)
  if ok and held then
    return results, nil, nil, extra -- extra is the store revision
  elseif (ok or extra) and not self:_left() then -- the hold has ended, and nothing was written
    return nil, self:_not_held()
  elseif not ok then
    local message, code = held, results
    local subject = string.format("%s: %s%s", names.describe_lock(self), method, quote_keys(keys))
    return nil, subject .. ": " .. message, code, extra -- whether certainly nothing was written
  end
  -- Never reached, because the core records the loss before it passes on an answer whose guard
  -- failed.
  return nil, string.format("%s was lost: its key is gone", names.describe_lock(self)), "lost"
end

-- Sends operations. In the same transaction etcd checks that all keys of the lock exist, with its
-- token and its lease.
local function send_guarded(self, method, keys, add_operations)
  return send(self, method, keys, function(txn)
    txn:guard_lock(self._core)
    add_operations(txn)
  end)
end

-- Sends operations that only read. Fails if the lock is no longer held when the answer comes. The
-- guard alone is not enough, because the owner may unlock meanwhile, and the client may hand the
-- unchanged key to another owner. Writes need no such check, because the client does not hand the
-- key to another owner while a write is in flight.
local function send_guarded_read(self, method, keys, add_operations)
  local results, message, code = send_guarded(self, method, keys, add_operations)
  if results and not self:_left() then
    return nil, self:_not_held()
  end
  return results, message, code
end

--- Asks etcd whether the lock is held. `lock:held` tells this without a request.
-- @function lock:check
-- @treturn true
-- @treturn seconds for which the hold is valid at least
-- @treturn revision at which etcd had the lock's key
-- @fail lost, not_held, or a request error
function M:check()
  local results, message, code, revision = send_guarded(self, "check", {}, function(txn)
    txn:get(self:key())
  end)
  if not results then
    self._client._loss_listeners:call_due()
    return nil, message, code
  end
  local held, left = self:held()
  if held then
    return true, left, revision
  end
  return nil, self:_not_held()
end

-- ---- keys whose last read failed ----

-- Records that a read of `key` has failed with `message`; nil: it has succeeded. A program may take
-- a failed read for a missing key, and write what it derives from that. So check_was_read refuses
-- to write the key until a read of it succeeds.
local function note_read(self, key, message)
  if message and not self._unread then
    self._unread = {}
  end
  if self._unread then
    self._unread[key] = message
  end
end

-- Returns nil, message, "unread" if the last read of `key` under this hold failed, else true. After
-- the end of the hold returns true: the write itself then fails with the reason.
local function check_was_read(self, key)
  local message = self._unread and self._unread[key]
  if not message or not self:_left() then
    return true
  end
  local text = "%s; so key %s was not read, and cannot be written; read it first"
  return nil, text:format(message, quote(key)), "unread"
end

-- Returns its arguments, the results of a guarded write. Counts a failure in the metrics.
local function count_failure(self, results, message, code, ...)
  if not results and self._client._metrics then
    self._client._metrics:count_failed_write(self, code)
  end
  return results, message, code, ...
end

-- Sends operations, of which some write the keys in the list `writes`.
local function send_guarded_writes(self, method, keys, writes, add_operations)
  for _, key in ipairs(writes) do
    local was_read, message, code = check_was_read(self, key)
    if not was_read then
      return count_failure(self, nil, message, code)
    end
  end
  return count_failure(self, send_guarded(self, method, keys, add_operations))
end

-- ---- reads and writes ----

-- Raises for a read lock, because several clients may hold a read lock at a time.
local function check_may_write(self, where)
  if self._mode ~= "read" then
    return
  end
  local text = "%s: a read hold of lock %s cannot write; take a write lock (client:write_lock)"
  if self._downgrade then
    text = "%s: lock:downgrade has made lock %s a read hold, which cannot write;"
      .. " write before lock:downgrade, or take a new write lock"
  end
  check.raise(string.format(text, where, names.quote(self)))
end

--- Writes a key in etcd, if the hold is still valid when etcd applies the write. By default,
-- etcd allows [1.5 MiB](#guarded-writes).
-- @function lock:put
-- @tparam string key key in etcd; the client's prefix is not added
-- @tparam string value
-- @treturn true
-- @fail lost, not_held, unread, or a request error: after `unavailable`, etcd may have applied the
--   write, or may still apply it (see [Guarded writes](#guarded-writes))
-- @raise for a read hold
function M:put(key, value)
  check.string("lock:put", "key", key)
  check.string("lock:put", "value", value)
  check_may_write(self, "lock:put")
  local keys = { key }
  local results, message, code = send_guarded_writes(self, "put", keys, keys, function(txn)
    txn:put(key, value)
  end)
  return results and true or nil, message, code
end

--- Deletes a key in etcd, if the hold is still valid when etcd applies the deletion.
-- @function lock:delete
-- @tparam string key key in etcd; the client's prefix is not added
-- @treturn true
-- @treturn boolean true if the key existed
-- @fail as lock:put
-- @raise for a read hold
function M:delete(key)
  check.string("lock:delete", "key", key)
  check_may_write(self, "lock:delete")
  local keys = { key }
  local results, message, code = send_guarded_writes(self, "delete", keys, keys, function(txn)
    txn:delete(key)
  end)
  if not results then
    return nil, message, code
  end
  return true, results[1] > 0
end

-- Returns the value that a read has found; false: the key does not exist.
local function read_value(kvs)
  return kvs[1] and kvs[1].value or false
end

--- Reads a key in etcd, if the hold is still valid when etcd reads it. After a failed read of a
-- key, this hold cannot write that key until a read of it succeeds (`unread`).
-- @function lock:get
-- @tparam string key key in etcd; the client's prefix is not added
-- @tparam[opt=false] any default what the call returns for a [missing key](#missing-keys)
-- @treturn string|any value, or `default`
-- @fail lost, not_held, or a request error
function M:get(key, default)
  check.string("lock:get", "key", key)
  local results, message, code = send_guarded_read(self, "get", { key }, function(txn)
    txn:get(key)
  end)
  note_read(self, key, message)
  if not results then
    return nil, message, code
  end
  return read_value(results[1]) or default or false
end

-- Operation -> length of its table.
local OPERATIONS = { put = 3, get = 2, delete = 2 }

-- Raises unless `list` is a list of operations. Returns two lists: of the keys that it writes, and
-- of the key of each operation.
local function check_operations(list)
  local writes, keys = {}, {}
  if type(list) ~= "table" or check.length(list) == 0 then
    check.raise('lock:txn: wanted a list of operations like { "put", key, value }')
  end
  for i = 1, check.length(list) do -- ipairs would stop at a hole
    local op = list[i]
    local length = type(op) == "table" and OPERATIONS[op[1]]
    if not length then
      check.raise(string.format('lock:txn: operation %d, wanted { "put", key, value },'
        .. ' { "get", key } or { "delete", key }', i))
    end
    for field = 2, length do
      check.string("lock:txn", string.format("operation %d, field %d", i, field), op[field])
    end
    keys[i] = op[2]
    if op[1] ~= "get" then
      writes[#writes + 1] = op[2]
    end
  end
  return writes, keys
end

-- Records for each key that `list` reads whether the read has succeeded. A key that `list` also
-- writes counts as read, because the program has chosen its value without this read.
local function note_operations(self, list, writes, message)
  for _, op in ipairs(list) do
    if op[1] == "get" then
      note_read(self, op[2], message)
    end
  end
  for _, key in ipairs(writes) do
    note_read(self, key, nil)
  end
end

--- Applies several operations at once, all or none, if the hold is still valid when etcd applies
-- them. A key may be changed only once. By default, etcd allows [128 operations](#guarded-writes).
-- @function lock:txn
-- @tparam {operation,...} list each operation is `{ "put", key, value }`, `{ "get", key }` or
--   `{ "delete", key }`
-- @treturn {boolean|string,...} with one result per operation: for `put` true; for `get` the value,
--   or false if the key does not exist; for `delete` true if the key existed, else false
-- @fail as lock:put
-- @raise for an invalid operation; for a read hold, if an operation writes
function M:txn(list)
  local writes, keys = check_operations(list)
  if writes[1] then
    check_may_write(self, "lock:txn")
  end
  local function add_operations(txn)
    for _, op in ipairs(list) do
      txn[op[1]](txn, op[2], op[3])
    end
  end
  local results, message, code
  if writes[1] then
    results, message, code = send_guarded_writes(self, "txn", keys, writes, add_operations)
  else
    results, message, code = send_guarded_read(self, "txn", keys, add_operations)
  end
  if code ~= "unread" then
    note_operations(self, list, writes, message)
  end
  if not results then
    return nil, message, code
  end
  for i, op in ipairs(list) do
    if op[1] == "get" then
      results[i] = read_value(results[i])
    elseif op[1] == "delete" then
      results[i] = results[i] > 0
    end
  end
  return results
end

--- Changes the leader's value, if this candidate still leads when etcd applies the change.
-- Observers report the new value, unless it is the same as before.
-- @function lock:proclaim
-- @tparam string value up to 4096 bytes
-- @treturn true
-- @fail lost, not_held, or a request error: after `lost`, `not_held` and `context` the value is
--   unchanged. After `unavailable`, etcd may have applied the change, or may apply it later, but
--   never after a later `proclaim` of the same hold has succeeded, and never after the key of the
--   hold was deleted
-- @raise for a lock that is not a leader's
function M:proclaim(value)
  self:_check_leader "lock:proclaim"
  local ok, refusal, refusal_code = lock_options.check_value("lock:proclaim", value)
  if not ok then
    return nil, refusal, refusal_code
  end
  local before = self._leader_value
  self._leader_value = nil -- unknown: etcd has the old or the new value
  local results, message, code, is_unchanged = count_failure(self, send(self, "proclaim", {},
    function(txn)
      txn:proclaim(self._core, value)
    end))
  if results then
    self._leader_value = value
  elseif is_unchanged then
    self._leader_value = before
  end
  return results and true or nil, message, code
end

-- Makes the lock a read lock, which cannot write, for this client. A transaction must then make the
-- lock a read lock in etcd; only after that do other owners get read locks. May be repeated.
local function become_reader(self)
  self._downgrade = "unconfirmed"
  self._client._held_locks:downgrade(self)
  self._mode = "read"
  self._core:downgrade()
end

--- Turns a write hold into a read hold, so that other readers may hold the lock at the same time.
-- No other writer gets the lock in between. Token and key stay the same. If the lock is held with
-- count 1, it is a read lock from the start of the call. If the call fails with `unavailable`,
-- repeat it, because other readers may still be blocked. An earlier write of unknown outcome is
-- never applied after other readers have got the lock.
-- @function lock:downgrade
-- @treturn true
-- @fail lost, not_held, or a request error: `invalid` if the count is above 1, because the other
--   users of the hold rely on a write lock
-- @raise for a lock that is neither a write lock nor a read lock
function M:downgrade()
  if self._mode ~= "write" and self._mode ~= "read" then
    local text = "lock:downgrade: %s is not a write lock; take it with client:write_lock"
    check.raise(text:format(names.describe_lock(self)))
  elseif not self:_left() then
    return nil, self:_not_held()
  elseif self._mode == "read" and self._downgrade ~= "unconfirmed" then
    return true
  elseif self:count() > 1 then
    local text = "lock %s: a hold with count %d cannot be downgraded; first unlock it to count 1"
    return nil, text:format(names.quote(self), self:count()), "invalid"
  end
  become_reader(self)
  local results, message, code = send(self, "downgrade", {}, function(txn)
    txn:downgrade(self._core)
  end)
  if not results then
    return nil, message, code
  end
  self._downgrade = "confirmed"
  return true
end

return M
