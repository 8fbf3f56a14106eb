--- The queues of a client's etcd: which entries hold a lock, and which wait for it.
-- @submodule client
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local label = require "etcdlock.label"
local names = require "etcdlock.names"
local quote = require("etcdlock.text").quote

local M = {}

-- Number of keys that are read below each name of a multi-lock. Another client has written the
-- names into its label, and any amount of user data may be below them.
local KEYS_MAX = 1000
-- Number of keys in one answer, and of queues in one transaction. etcd accepts 128 operations.
local PAGE_KEYS, TXN_QUEUES = 1000, 100

-- ---- reads at one revision ----
-- All reads of a call see etcd at one revision, that of the first answer.

local Snapshot = {}
Snapshot.__index = Snapshot

-- The code of a read at a revision that etcd has compacted.
local COMPACTED = "invalid"

-- Returns a transaction for `read`. Its operations take self.revision as an argument.
function Snapshot:txn()
  return self._client._core:txn()
end

-- Sends a transaction: results | nil, message, code.
function Snapshot:read(txn)
  if self._is_over then
    return nil, self._message, "unavailable"
  end
  local ok, held, results, revision = self._client:_run_txn(txn, self._deadline)
  if ok then
    self.revision = self.revision or revision
    return results
  end
  local message, code = held, results
  self._message = message
  self._is_over = self.revision and code == COMPACTED
    or code == "unavailable" and core.now() >= self._deadline
  return nil, message, code
end

-- Returns the results of read_all(snapshot): results | nil, message, code. Calls it again with a
-- new snapshot if etcd has compacted the revision meanwhile. Sends requests until the time
-- `deadline`, and then fails with `unavailable`.
local function read_at_one_revision(client, deadline, read_all)
  local snapshot
  repeat
    snapshot = setmetatable({ _client = client, _deadline = deadline }, Snapshot)
    local results, message, code = read_all(snapshot)
    if not snapshot._is_over then
      return results, message, code
    end
  until core.now() >= deadline
  return nil, snapshot._message, "unavailable"
end

-- ---- one queue ----

local function get_leases(kvs)
  local leases = {}
  for _, kv in ipairs(kvs) do
    leases[kv.key] = kv.lease
  end
  return leases
end

-- Returns true if the write lock with the key `kv` was downgraded to a read lock: there is a key
-- for that, attached to the same lease.
local function is_downgraded(leases, full_name, kv)
  return leases[core.downgrade_note(full_name, kv.create_revision)] == kv.lease
end

-- Returns true if the next entry of a queue holds. `older` describes the entries before it: the
-- number of permits, and the last entry of another mode. The function adds this entry to it.
local function is_held(older, mode, permits)
  if mode == "permit" then
    older.permits = older.permits + 1
    return older.permits <= permits
  end
  local last = older.last
  local held = last == nil or (last.held and last.mode == "read" and mode == "read")
  older.last = { held = held, mode = mode }
  return held
end

-- Returns the full names of a multi-lock from its label, if `full_name` is one of them.
local function get_full_names(fields, full_name)
  for _, name in ipairs(fields.names or {}) do
    if name == full_name then
      return fields.names
    end
  end
end

-- Returns the entries among the keys below a name, the oldest first. For a multi-lock, `full_names`
-- is set below its first name, and `first` below the others; `held` is that of this queue alone.
local function parse_entries(kvs, full_name)
  local entries, older, leases = {}, { permits = 0 }, get_leases(kvs)
  for _, kv in ipairs(kvs) do
    local is_entry, mode, permits = core.parse_key(full_name, kv.key, kv.lease)
    if is_entry then
      local fields = label.read(kv.value)
      if mode == "write" and is_downgraded(leases, full_name, kv) then
        mode = "read"
      end
      entries[#entries + 1] = {
        held = is_held(older, mode, permits),
        token = kv.create_revision,
        lease = kv.lease,
        mode = mode,
        key = kv.key,
        host = fields.host,
        pid = fields.pid,
        since = fields.since,
        owner = fields.owner,
        lock_delay = fields.lock_delay,
        value = fields.value or next(fields) == nil and kv.value ~= "" and kv.value or nil,
        full_names = mode == "multi" and get_full_names(fields, full_name) or nil,
        first = mode == "multi" and fields.first or nil,
      }
    end
  end
  return entries
end

-- ---- the other names of a multi-lock ----

-- Returns the last part of a multi-lock's keys, which is the same below each name.
local function get_key_end(entry)
  return entry.key:match "/[^/]*$"
end

-- Reads the full names of the multi-lock of `entry`, an entry of the queue of `full_name`, from the
-- key below its first name. Returns false if that key does not exist; nil if the read failed.
local function read_full_names(snapshot, full_name, entry)
  local txn, key = snapshot:txn(), entry.first .. get_key_end(entry)
  txn:list(key, key .. "\0", snapshot.revision)
  local results = snapshot:read(txn)
  if not results then
    return nil
  end
  local kv = results[1][1]
  if kv and kv.create_revision == entry.token and kv.lease == entry.lease then
    return get_full_names(label.read(kv.value), full_name) or false
  end
  return false
end

-- Returns true if the multi-lock of `entry` is first in the queue of `full_name`, of which `kvs`
-- are the oldest keys; nil if there is no entry among them, but there are more keys.
local function is_first(kvs, full_name, entry)
  for _, kv in ipairs(kvs) do
    local is_entry, mode = core.parse_key(full_name, kv.key, kv.lease)
    if is_entry and mode ~= "permit" then
      return kv.key == full_name .. get_key_end(entry) and kv.create_revision == entry.token
    end
  end
  return #kvs == KEYS_MAX and nil
end

-- Returns true if the multi-lock of `entry` is first in the queues of all `full_names`; nil if that
-- is unknown.
local function is_first_everywhere(snapshot, full_names, entry)
  local txn, result = snapshot:txn(), true
  for _, full_name in ipairs(full_names) do
    txn:oldest_keys(full_name .. "/", full_name .. "0", snapshot.revision, KEYS_MAX)
  end
  local results = snapshot:read(txn)
  if not results then
    return nil
  end
  for i, full_name in ipairs(full_names) do
    local first = is_first(results[i], full_name, entry)
    if first == false then
      return false
    end
    result = result and first
  end
  return result
end

-- Corrects `held` of a multi-lock that is first in the queue of `full_name`. It holds only if it is
-- first in the queue of each of its names. Sets `held` to nil if the other queues cannot be read.
-- Sets `full_names` if it holds.
local function correct_multi_lock(snapshot, full_name, entry)
  local full_names = entry.full_names
  if entry.first then
    full_names = read_full_names(snapshot, full_name, entry)
  end
  entry.held = full_names and is_first_everywhere(snapshot, full_names, entry)
  entry.full_names = (entry.held or not entry.first) and full_names or nil
end

-- ---- entries for callers ----

-- Returns the entries of the queue of `full_name`, of which `kvs` are the keys, the oldest first.
local function read_entries(snapshot, full_name, kvs)
  local entries = parse_entries(kvs, full_name)
  for _, entry in ipairs(entries) do
    if entry.held and (entry.full_names or entry.first) then
      correct_multi_lock(snapshot, full_name, entry)
    end
  end
  return entries
end

-- Returns the entries of the queue of a name: list | nil, message, code.
local function list_entries(self, where, name, deadline)
  local full_name, message, code = names.add_prefix(where, self._prefix, name)
  if not full_name then
    return nil, message, code
  end
  return read_at_one_revision(self, deadline, function(snapshot)
    local txn = snapshot:txn()
    txn:list(full_name .. "/", full_name .. "0")
    local results, text, failure = snapshot:read(txn)
    if not results then
      return nil, text, failure
    end
    return read_entries(snapshot, full_name, results[1])
  end)
end

-- Returns the names without the client's prefix. A name of another client may not have it.
local function remove_prefix(self, full_names)
  local list, prefix = {}, self._prefix
  for i, full_name in ipairs(full_names) do
    list[i] = full_name:sub(1, #prefix) == prefix and full_name:sub(#prefix + 1) or full_name
  end
  return list
end

-- Sets the field `names` of each entry, the names without the prefix, and removes the fields that
-- are not public. Returns the list.
local function make_public(self, entries)
  for _, entry in ipairs(entries) do
    entry.names = entry.full_names and remove_prefix(self, entry.full_names)
    entry.full_names, entry.first = nil, nil
  end
  return entries
end

--- An entry of `client:queue`. The fields from `host` on are missing if another kind of client
-- wrote the key. A client has one entry for each mode, however many of its owners wait. It has
-- several for readers that do not share a key, and up to `n` for a semaphore.
-- @table entry
-- @tfield[opt] boolean held true: the entry holds; false: it waits; nil: unknown. It is unknown for
--   a multi-lock that is first in this queue, if the queues of its other names cannot be read
-- @tfield token token fencing token
-- @tfield string lease lease ID in hex
-- @tfield mode mode mode of the lock. A candidate of an election has `multi` if it uses etcdlock
-- @tfield string key key in etcd
-- @tfield[opt] string host host name of the client's machine
-- @tfield[opt] count pid process ID of the client
-- @tfield[opt] time since time at which the client asked for the lock
-- @tfield[opt] owner owner the option `owner`, if it is a string or a number
-- @tfield[opt] seconds lock_delay the option `lock_delay`
-- @tfield[opt] string value the option `value`; for a candidate of an election, its value
-- @tfield[opt] {string,...} names names of a multi-lock. While it waits, only its entry below its
--   first name has them; while it holds, all its entries have them

--- Returns the entries of a lock, the oldest first: those that hold it and those that wait. Only
-- keys that are attached to the lease in their name are entries. Other keys below the name are user
-- data.
-- @function client:queue
-- @tparam string name
-- @treturn {entry,...}
-- @fail a request's
-- @raise for a wrong type
function M:queue(name)
  local entries, message, code = list_entries(self, "client:queue", name, self._get_deadline())
  if not entries then
    return nil, message, code
  end
  return make_public(self, entries)
end

local function find_entry(entries, token)
  for _, entry in ipairs(entries) do
    if entry.token == token then
      return entry
    end
  end
end

-- Returns a transaction that deletes the keys of an entry if it still exists.
local function make_deletion(self, entry)
  local txn = self._core:txn()
  txn:guard(entry.key, entry.token, entry.lease)
  if entry.held and entry.full_names then
    for _, full_name in ipairs(entry.full_names) do
      txn:delete(full_name .. get_key_end(entry))
    end
  else
    txn:delete(entry.key)
  end
  return txn
end

--- Ends the hold with this token: deletes its key, so that the next waiter gets the lock. For a
-- multi-lock, the call deletes the keys of all names. If it is unknown whether a multi-lock holds
-- (`held` of `client:queue`), the call deletes only its key below this name, which ends the hold or
-- the wait for all names. It never deletes user data.
-- @function client:break_lock
-- @tparam string name
-- @tparam token token token of the entry, from `client:queue`
-- @treturn true
-- @fail not_held, or a request's: `not_held` if no entry with this token holds the lock
-- @raise for a wrong type
function M:break_lock(name, token)
  check.number("client:break_lock", "token", token)
  local deadline = self._get_deadline()
  local entries, message, code = list_entries(self, "client:break_lock", name, deadline)
  if not entries then
    return nil, message, code
  end
  local entry = find_entry(entries, token)
  local not_held = string.format("lock %s is not held with token %.0f", quote(name), token)
  if not entry or entry.held == false then
    return nil, not_held, "not_held"
  end
  local ok, held, results = self:_run_txn(make_deletion(self, entry), deadline)
  if not ok then
    return nil, held, results -- message, code
  elseif not held then
    return nil, not_held, "not_held"
  end
  return true
end

-- ---- all queues below a prefix ----
-- Other programs keep their data in the same etcd. So keys are listed in pages and without values,
-- and only the queues of the lock names among them are read.

-- Returns the first key after all keys that begin with `prefix`. For all keys etcd expects "\0".
local function get_range_end(prefix)
  local head = prefix:gsub("\255*$", "")
  return head == "" and "\0" or head:sub(1, -2) .. string.char(head:byte(-1) + 1)
end

-- Returns the full names of locks that begin with `prefix`, sorted: list | nil, message, code.
local function list_names(snapshot, prefix)
  local full_names, seen = {}, {}
  local from, to = prefix == "" and "\0" or prefix, get_range_end(prefix)
  repeat
    local txn = snapshot:txn()
    txn:keys(from, to, snapshot.revision, PAGE_KEYS)
    local results, message, code = snapshot:read(txn)
    if not results then
      return nil, message, code
    end
    local page = results[1]
    for _, kv in ipairs(page) do
      local name = core.name_of_key(kv.key, kv.lease)
      if name and name:sub(1, #prefix) == prefix and names.is_full_name(name)
        and not seen[name] then
        seen[name] = true
        full_names[#full_names + 1] = name
      end
    end
    from = page[1] and page[#page].key .. "\0"
  until #page < PAGE_KEYS
  table.sort(full_names)
  return full_names
end

-- Reads up to TXN_QUEUES queues of `full_names` from the index `first` on, and adds them to the
-- list `found`: true | nil, message, code.
local function read_some(self, snapshot, full_names, first, found)
  local txn, last = snapshot:txn(), math.min(first + TXN_QUEUES - 1, #full_names)
  for i = first, last do
    txn:list(full_names[i] .. "/", full_names[i] .. "0", snapshot.revision)
  end
  local results, message, code = snapshot:read(txn)
  if not results then
    return nil, message, code
  end
  for i = first, last do
    local kvs = results[i - first + 1]
    local entries = make_public(self, read_entries(snapshot, full_names[i], kvs))
    found[#found + 1] = {
      name = full_names[i]:sub(#self._prefix + 1),
      entries = entries,
      other_keys = #kvs - #entries,
    }
  end
  return true
end

local function read_queues(self, snapshot, prefix)
  local full_names, message, code = list_names(snapshot, prefix)
  if not full_names then
    return nil, message, code
  end
  local found = {}
  for first = 1, #full_names, TXN_QUEUES do
    local ok
    ok, message, code = read_some(self, snapshot, full_names, first, found)
    if not ok then
      return nil, message, code
    end
  end
  return found
end

--- A queue of `client:queues`.
-- @table queue
-- @tfield string name name of the lock, without the client's prefix
-- @tfield {entry,...} entries entries, the oldest first, as `client:queue` returns them
-- @tfield count other_keys number of keys below the name that are no entries. Many of them slow
--   down each request for the lock

--- Returns the queues of all locks whose names begin with a prefix, as they were at one revision. A
-- user that may not read all keys of etcd must give a prefix that it may read, or gets `denied`.
-- @function client:queues
-- @tparam[opt=""] string prefix
-- @treturn {queue,...} sorted by name
-- @fail a request's: also `unavailable` if not all queues can be read within 5 s
-- @raise for a wrong type
function M:queues(prefix)
  prefix = prefix or ""
  check.string("client:queues", "prefix", prefix)
  local full_prefix = self._prefix .. prefix
  if #full_prefix > core.NAME_MAX or full_prefix:find "%z" then
    local wanted = "at most " .. core.NAME_MAX - #self._prefix .. " bytes, no NUL"
    return check.invalid("client:queues", "prefix", prefix, wanted)
  end
  return read_at_one_revision(self, self._get_deadline(), function(snapshot)
    return read_queues(self, snapshot, full_prefix)
  end)
end

return M
