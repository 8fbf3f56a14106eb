--- The queues of a client's etcd: which entries hold a lock, and which wait for it.
-- @submodule client
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local label = require "etcdlock.label"
local names = require "etcdlock.names"
local quote = require("etcdlock.text").quote
local snapshots = require "etcdlock.snapshot"

local M = {}

-- The largest number of keys that is read below each name of a multi-lock. There is a limit because
-- the names cannot be trusted: they come from the label of an entry, which any other program may
-- have written. Any number of keys may be below such a name.
local KEYS_MAX = 1000

-- ---- one queue ----

-- Returns those of `kvs` that may have a lease, and whether the page shows leases. `kvs` are some
-- of the keys in `page`. If any key in `page` is shown with a lease, a key without one has none.
local function keep_leased(kvs, page)
  local leased, is_shown = {}, false
  for _, kv in ipairs(page) do
    is_shown = is_shown or kv.lease ~= nil
  end
  for _, kv in ipairs(kvs) do
    leased[#leased + 1] = (kv.lease or not is_shown) and kv or nil
  end
  return leased, is_shown
end

local function get_leases(kvs)
  local leases = {}
  for _, kv in ipairs(kvs) do
    leases[kv.key] = kv.lease
  end
  return leases
end

-- Returns true if the write lock whose key is `kv` was downgraded to a read lock: the marker key of
-- the downgrade exists and is attached to the same lease. `leases`: key -> its lease.
local function is_downgraded(leases, full_name, kv)
  return leases[core.downgrade_marker(full_name, kv.create_revision)] == kv.lease
end

-- Called for the entries of a queue, one by one, the oldest first. Returns true if an entry of this
-- mode (and number of permits) holds. `older` describes the older entries: `permits` is the number
-- of permits among them, and `last` is the last one that is not a permit. is_held adds the entry to
-- `older`.
local function is_held(older, mode, permits)
  if mode == "permit" then
    older.permits = older.permits + 1
    return older.permits <= permits
  end
  local last = older.last
  local held = last == nil or (last.held and not core.modes_conflict(last.mode, mode))
  older.last = { held = held, mode = mode }
  return held
end

-- Returns the list of the full names of a multi-lock from the fields of its label. Returns nil if
-- the label has no such list, or if `full_name` is not in the list.
local function get_full_names(fields, full_name)
  for _, name in ipairs(fields.names or {}) do
    if name == full_name then
      return fields.names
    end
  end
end

-- Returns true if the entry `kv` is probably a candidate of an election. Its value is then what the
-- candidate publishes, and no label (`fields`, see label.read). A candidate of etcdlock has a key
-- in the form of a multi-lock's key. A candidate of Go or etcdctl has a key in the form of a lock's
-- key. Locks of other programs have no value.
local function is_candidate(mode, fields, kv)
  return not fields.host and (mode == "multi" or mode == "lock" and kv.value ~= "")
end

-- Returns the entries among `kvs`, the keys below `full_name`; both lists are sorted, the oldest
-- first. An entry of a multi-lock has one more field: `full_names`, the list of its full names, if
-- this is the queue of its first name; otherwise `first`, its first full name. The field `held` of
-- such an entry says only whether it is first in this queue: see correct_multi_lock.
local function parse_entries(kvs, full_name)
  local entries, older, leases = {}, { permits = 0 }, get_leases(kvs)
  for _, kv in ipairs(kvs) do
    local is_entry, mode, permits = core.parse_key(full_name, kv.key, kv.lease)
    if is_entry then
      local fields = label.read(kv.value)
      if mode == "write" and is_downgraded(leases, full_name, kv) then
        mode = "read"
      elseif is_candidate(mode, fields, kv) then
        mode = "leader"
      end
      entries[#entries + 1] = {
        held = is_held(older, mode, permits),
        token = kv.create_revision,
        lease = kv.lease,
        mode = mode,
        permits = mode == "permit" and permits or nil,
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

-- Returns the last part of the key of `entry`, from the last "/" on. All keys of a multi-lock have
-- the same last part.
local function get_key_end(entry)
  return entry.key:match "/[^/]*$"
end

-- Reads the list of the full names of a multi-lock. `entry` is the entry of the multi-lock in the
-- queue of `full_name`. Only one key of the multi-lock contains the list: the key below its first
-- name, which is `entry.first`. Returns the list. Returns false if that key does not exist, belongs
-- to another lock, or does not contain a list with `full_name`. Returns nil if the read failed.
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

-- Returns true if the multi-lock of `entry` is first in the queue of `full_name`, false if it is
-- not. `kvs` is the list of the oldest keys below `full_name`, at most KEYS_MAX. Returns nil if the
-- answer is unknown: a read failed, or the list does not show the multi-lock's key, because the key
-- is younger than KEYS_MAX others, was deleted, or was never put.
local function is_first(snapshot, kvs, full_name, entry)
  local candidates = {}
  for _, kv in ipairs(kvs) do
    if kv.create_revision <= entry.token and core.name_of_key(kv.key) == full_name then
      candidates[#candidates + 1] = kv
    end
  end
  local leased, is_shown = keep_leased(candidates, kvs)
  if not (is_shown or snapshot:read_values(leased)) then
    return nil
  end
  local own, first = full_name .. get_key_end(entry), nil
  for _, kv in ipairs(leased) do
    local is_entry, mode = core.parse_key(full_name, kv.key, kv.lease)
    if is_entry and mode ~= "permit" then
      first = first or kv.key
      if kv.key == own and kv.create_revision == entry.token then
        return first == own
      end
    end
  end
  return nil
end

-- Returns true if the multi-lock of `entry` is first in the queues of all `full_names`, false if it
-- is not. Returns nil if the answer is unknown: the read failed, or is_first has returned nil.
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
    local first = is_first(snapshot, results[i], full_name, entry)
    if first == false then
      return false
    end
    result = result and first
  end
  return result
end

-- Corrects two fields of `entry`, the entry of a multi-lock that is first in the queue of
-- `full_name`. A multi-lock holds only if it is first in the queues of all its names.
--   entry.held        set to true if the multi-lock holds, to false if it waits, to nil if that is
--                     unknown: its list of names was not found, or is_first_everywhere returns nil
--   entry.full_names  set to the list of its names if the multi-lock holds. Otherwise only the
--                     entry in the queue of the first name has this list
local function correct_multi_lock(snapshot, full_name, entry)
  local full_names = entry.full_names
  if entry.first then
    full_names = read_full_names(snapshot, full_name, entry)
  end
  entry.held = nil -- unknown: its label may be wrong
  if full_names then
    entry.held = is_first_everywhere(snapshot, full_names, entry)
  end
  entry.full_names = (entry.held or not entry.first) and full_names or nil
end

-- ---- entries for callers ----

-- Sorts keys, the oldest first.
local function sort_keys(kvs)
  table.sort(kvs, function(a, b)
    if a.create_revision == b.create_revision then
      return core.is_before(a.key, b.key)
    end
    return a.create_revision < b.create_revision
  end)
end

-- Returns the entries of the queue of `full_name`, the oldest first. `kvs` is the list of its keys,
-- as list_keys returns them. If a multi-lock is first in this queue, the function also reads the
-- queues of its other names.
local function read_entries(snapshot, full_name, kvs)
  sort_keys(kvs)
  local entries = parse_entries(kvs, full_name)
  for _, entry in ipairs(entries) do
    if entry.held and (entry.full_names or entry.first) then
      correct_multi_lock(snapshot, full_name, entry)
    end
  end
  return entries
end

-- Adds `number` to counts[name] of each full name below which `key` is: each beginning of the key
-- that ends in front of a slash, and has at least `size` bytes.
local function count_key(counts, key, size, number)
  local slash = key:find("/", math.max(size, 1) + 1, true)
  while slash do
    local name = key:sub(1, slash - 1)
    counts[name] = (counts[name] or 0) + number
    slash = key:find("/", slash + 1, true)
  end
end

-- Returns the keys of `map` in the order of etcd's keys.
local function sorted_names(map)
  local list = {}
  for name in pairs(map) do
    list[#list + 1] = name
  end
  table.sort(list, core.is_before)
  return list
end

-- Keeps the first names in `lists`, full name -> list of its keys, and removes the others: keeps as
-- many names as have at most `limit` keys together, and at least one name. Returns true if it has
-- removed a name.
local function keep_first(lists, limit)
  local count, is_cut = 0, false
  for i, name in ipairs(sorted_names(lists)) do
    count = count + #lists[name]
    if i > 1 and count > limit then
      lists[name], is_cut = nil, true
    end
  end
  return is_cut
end

-- Returns the `limit` oldest of `kvs`, the keys below `full_name`, with the markers of those that
-- were downgraded. The field `more` of the result is the number of the other keys that are no
-- markers; nil if there are none.
local function keep_oldest(kvs, full_name, limit)
  local kept, markers, count = {}, {}, 0
  sort_keys(kvs) -- a marker is younger than the key that it marks
  for _, kv in ipairs(kvs) do
    local is_kept = markers[kv.key]
    if is_kept == nil then
      count = count + 1
      is_kept = count <= limit
      markers[core.downgrade_marker(full_name, kv.create_revision)] = is_kept
    end
    kept[#kept + 1] = is_kept and kv or nil
  end
  kept.more = count > limit and count - limit or nil
  return kept
end

-- Reads the keys from `from` to `to`, exclusive, that have the form of an entry or of the marker of
-- a downgrade, and whose name passes the test is_wanted(full_name), without their values. With
-- `limit` (nil: none), keeps only the names that keep_first keeps, and of a queue with more keys
-- only the `limit` oldest ones. Then reads the values of the keys that are kept. Returns a table
-- full name -> list of the keys, and whether names were left out; or nil, message, code if a read
-- failed. Calls visit(key), which may be nil, for all keys from `from` to `to`.
local function list_keys(snapshot, from, to, is_wanted, visit, limit)
  local lists, is_known, is_cut, all = {}, {}, false, {}
  local ok, message, code = snapshot:each_page(from, to, function(page)
    local candidates = {}
    for _, kv in ipairs(page) do
      local name = core.name_of_key(kv.key)
      if name and not is_known[name] then
        is_known[name], lists[name] = true, is_wanted(name) and {} or nil
      end
      kv.list = name and lists[name]
      candidates[#candidates + 1] = kv.list and kv or nil
      if visit then
        visit(kv.key)
      end
    end
    for _, kv in ipairs((keep_leased(candidates, page))) do
      kv.list[#kv.list + 1] = kv
    end
    -- After each page, so that the work between two requests does not grow with the number of all
    -- names.
    is_cut = limit and keep_first(lists, limit) or is_cut
  end)
  if not ok then
    return nil, message, code
  end
  for name, kvs in pairs(lists) do
    lists[name] = limit and #kvs > limit and keep_oldest(kvs, name, limit) or kvs
    for _, kv in ipairs(lists[name]) do
      all[#all + 1] = kv
    end
  end
  ok, message, code = snapshot:read_values(all)
  if not ok then
    return nil, message, code
  end
  return lists, is_cut
end

-- Reads the queue of the lock `name`. Returns the list of its entries, the oldest first; or nil,
-- message, code.
local function list_entries(self, where, name, deadline)
  local full_name, message, code = names.add_prefix(where, self._prefix, name)
  if not full_name then
    return nil, message, code
  end
  return snapshots.read(self, "lock " .. quote(full_name), deadline, function(snapshot)
    local lists, text, failure = list_keys(snapshot, full_name .. "/", full_name .. "0",
      function(other) return other == full_name end)
    if not lists then
      return nil, text, failure
    end
    return read_entries(snapshot, full_name, lists[full_name] or {})
  end)
end

-- Returns the list of the names without the client's prefix. A name that does not begin with this
-- prefix stays as it is: a multi-lock of another client may have such names.
local function remove_prefix(self, full_names)
  local list, prefix = {}, self._prefix
  for i, full_name in ipairs(full_names) do
    list[i] = full_name:sub(1, #prefix) == prefix and full_name:sub(#prefix + 1) or full_name
  end
  return list
end

-- Removes the fields `full_names` and `first`, which are not public, from each entry. An entry with
-- `full_names` gets the public field `names` instead: the names without the client's prefix.
-- Returns the same list.
local function make_public(self, entries)
  for _, entry in ipairs(entries) do
    entry.names = entry.full_names and remove_prefix(self, entry.full_names)
    entry.full_names, entry.first = nil, nil
  end
  return entries
end

--- An entry of `client:queue`. The fields that describe the client (`host`, `pid`, `since`,
-- `owner`, `lock_delay`) are missing for a candidate of an election, and if another kind of client
-- wrote the key.
--
-- A client has one entry for each mode, however many of its owners wait, and may have a second one
-- while the first is being deleted. It has several entries for readers that do not share a key, up
-- to `n` for a semaphore, and one for each multi-lock and each candidate.
-- @table entry
-- @tfield[opt] boolean held true: the entry holds the lock; false: the entry waits; nil: unknown.
--   It is unknown only for a multi-lock that is first in this queue: if its list of names, or the
--   queue of another name, cannot be read; if its key in such a queue was deleted; or if such a
--   queue has 1,000 keys that are older than its key
-- @tfield token token fencing token
-- @tfield string lease lease ID in hex
-- @tfield mode mode mode of the lock; `leader` for a candidate of an election, unless it is one of
--   Go or etcdctl with an empty value
-- @tfield[opt] count permits `n` of the semaphore, as the client of the entry uses it
-- @tfield string key key in etcd
-- @tfield[opt] string host host name of the client's machine
-- @tfield[opt] count pid process ID of the client
-- @tfield[opt] time since time at which the client asked for the lock
-- @tfield[opt] string owner the option `owner` as text, if it is a string or a number
-- @tfield[opt] seconds lock_delay the option `lock_delay`
-- @tfield[opt] string value the option `value`; for a candidate of an election, the value of the
--   candidate; if another kind of client wrote the key, the value of the key
-- @tfield[opt] {string,...} names names of a multi-lock. While the multi-lock holds, all its
--   entries have this field; while it waits, only the entry in the queue of its first name

--- Returns the entries in the queue of a lock, the oldest first: the entries that hold the lock and
-- the entries that wait for it. [User data](README.md#terms) below the name is not listed.
-- @function client:queue
-- @tparam string name
-- @treturn {entry,...}
-- @fail a request error
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

-- Returns a transaction that deletes the keys of `entry` if the entry still exists.
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

--- Ends the hold with this token: deletes the key of the hold, so that the next waiter gets the
-- lock. For a multi-lock, the call deletes the keys of all names. If it is unknown whether a
-- multi-lock holds (its `held` in `client:queue` is nil), the call deletes only the key below this
-- name; this ends the hold, or the wait, for all names. The call never deletes user data. The
-- client of the hold learns of the deletion from etcd, normally a round trip later. Until then its
-- hold still counts as held and may pass to another owner of that client. If a proxy holds messages
-- back, the client learns of the deletion when it reads the key: at least every third of the TTL,
-- the client reads the next one of the keys that it holds.
-- @function client:break_lock
-- @tparam string name
-- @tparam token token token of the entry, from `client:queue`
-- @treturn true
-- @fail not_held, or a request error: `not_held` if no entry with this token holds the lock;
--   `invalid` if the token is not a whole number
function M:break_lock(name, token)
  check.string("client:break_lock", "name", name)
  check.number("client:break_lock", "token", token)
  if token % 1 ~= 0 then
    return check.invalid("client:break_lock", "token", token, "a whole number, as in client:queue")
  end
  local deadline = self._get_deadline()
  local entries, message, code = list_entries(self, "client:break_lock", name, deadline)
  if not entries then
    return nil, message, code
  end
  local entry = find_entry(entries, token)
  local subject = "lock " .. quote(self._prefix .. name)
  local not_held = string.format("%s is not held with token %.0f", subject, token)
  if not entry or entry.held == false then
    return nil, not_held, "not_held"
  end
  local ok, held, results = self:_run_txn(make_deletion(self, entry), deadline)
  if not ok then
    return nil, string.format("%s: %s", subject, held), results -- the message and the code
  elseif not held then
    return nil, not_held, "not_held"
  end
  return true
end

-- ---- all queues below a prefix ----

-- Returns the list of the queues whose full names begin with `prefix`; a table full name -> number
-- of the keys below it that are no entries, also for names without an entry; and the full name
-- after which the next page begins, nil if there is none. `page` has the fields `limit` and
-- `after`, a full name; both may be missing. With them the numbers lack the keys before the page,
-- and include entries that were not read. If a read failed, returns nil, message, code.
local function read_queues(self, snapshot, prefix, page)
  local from, to = snapshots.range_of(prefix)
  local after = page.after
  if after and core.is_before(from, after) then
    from = after -- the keys of all later names are after it
  end
  local counts, found = {}, {}
  local lists, is_cut, code = list_keys(snapshot, from, to, function(name)
    return name:sub(1, #prefix) == prefix and names.is_full_name(name)
      and not (after and not core.is_before(after, name))
  end, function(key) count_key(counts, key, #prefix, 1) end, page.limit)
  if not lists then
    return nil, is_cut, code -- is_cut is the message
  end
  local full_names = sorted_names(lists)
  for _, full_name in ipairs(full_names) do
    local kvs = lists[full_name]
    local entries = make_public(self, read_entries(snapshot, full_name, kvs))
    if entries[1] then
      found[#found + 1] = {
        name = full_name:sub(#self._prefix + 1), entries = entries, more = kvs.more,
        other_keys = counts[full_name] - #entries - (kvs.more or 0),
      }
    end
  end
  for _, queue in ipairs(found) do
    for _, entry in ipairs(queue.entries) do
      count_key(counts, entry.key, #prefix, -1)
    end
  end
  return found, counts, is_cut and full_names[#full_names] or nil
end

--- A queue of `client:queues`.
-- @table queue
-- @tfield string name name of the lock, without the client's prefix
-- @tfield {entry,...} entries entries, the oldest first, as `client:queue` returns them
-- @tfield count other_keys number of keys below the name that are not entries of this queue. Many
--   such keys slow down each request for the lock
-- @tfield[opt] count more number of younger keys of entries that were not read, because the queue
--   has more than `limit`; missing if all were read

-- Returns what read_queues returns, for the names that begin with `prefix`. `page` may be nil.
-- Fails as client:queues.
function M:_read_queues(prefix, page)
  local full_prefix, message, code = names.join_prefixes("client:queues", self._prefix, prefix)
  if not full_prefix then
    return nil, message, code
  end
  local what = full_prefix == "" and "all locks" or "locks that begin with " .. quote(full_prefix)
  return snapshots.read(self, what, self._get_deadline(), function(snapshot)
    return read_queues(self, snapshot, full_prefix, page or {})
  end)
end

--- The options of `client:queues`, to read many queues in pages.
-- @table queues_options
-- @tfield[opt] count limit largest number of entries of a page, 1 or more. A page has only whole
--   queues; if the first queue has more entries, the page has the oldest of them
-- @tfield[opt] string after the page begins after this name
local QUEUES_OPTIONS = {
  limit = {
    type = "number",
    is_valid = function(limit) return limit >= 1 and limit % 1 == 0 end,
    wanted = "a whole number of entries, 1 or more",
  },
  after = { type = "string" },
}

--- Returns the queues of all locks whose names begin with `prefix`, as they were at one revision.
-- The etcd user needs permission to read all keys that begin with the client's prefix and `prefix`;
-- otherwise the call fails with `denied`.
--
-- Thousands of entries take a moment to read, and in nginx they stop the worker. With `limit` the
-- call returns one page, and the name after which the next page begins. It still lists all later
-- keys, but reads the values of one page only.
-- @function client:queues
-- @tparam[opt=""] string prefix
-- @tparam[opt] queues_options opts
-- @treturn {queue,...} sorted by the bytes of the name
-- @treturn string|nil the option `after` of the next page; nil: this is the last page
-- @fail a request error: also `unavailable` if not all queues can be read within 5 s
function M:queues(prefix, opts)
  opts = check.options("client:queues", opts, QUEUES_OPTIONS, {})
  if opts.limit then
    local ok, message, code =
      check.value("client:queues", "limit", opts.limit, QUEUES_OPTIONS.limit)
    if not ok then
      return nil, message, code
    end
  end
  local page = { limit = opts.limit, after = opts.after and self._prefix .. opts.after }
  local found, counts, last = self:_read_queues(prefix or "", page)
  if found then
    return found, last and last:sub(#self._prefix + 1) or nil
  end
  return nil, counts, last -- message, code
end

return M
