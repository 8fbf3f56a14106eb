--- Reads of many keys at one revision of etcd: the revision of the first answer.
--
-- Other programs may keep any amount of data in the same etcd. So a snapshot lists the keys in
-- pages and without values. Then it reads the values of the wanted keys only, a bounded number at a
-- time.
local core = require "etcdlock.core"

local M = {}

-- The number of keys that one request lists without values.
local PAGE_KEYS = 1000
-- The number of keys that one transaction reads with their values: MANY_VALUES if the values of the
-- previous transaction had at most SMALL_BYTES, else FEW_VALUES. FEW_VALUES of the largest values
-- that etcd accepts by default (1.5 MiB) fit into one answer. After an answer that was too large,
-- the number falls to FEW_VALUES, then to 1.
local FEW_VALUES, MANY_VALUES, SMALL_BYTES = 16, 100, 1024 * 1024

local Snapshot = {}
Snapshot.__index = Snapshot

--- Returns a new transaction for Snapshot:read. The caller adds read operations to it, and passes
-- the field `revision` of the snapshot to each of them (nil before the first answer).
function Snapshot:txn()
  return self._client._core:txn()
end

--- Sends a transaction. Returns the list of the results of its operations; or nil, message, code,
-- and the result of txn:read_failure (src/lua/txn.c).
-- Sets `_is_over` if no later read of this snapshot can succeed: either etcd has compacted the
-- revision, or the deadline has passed.
function Snapshot:read(txn)
  if self._is_over then
    return nil, self._message, "unavailable"
  end
  local ok, held, results, revision = self._client:_run_txn(txn, self._deadline)
  if ok then
    self.revision = self.revision or revision
    return results
  end
  local message, code, failure = held, results, txn:read_failure()
  self._message = message
  self._is_over = self.revision and failure == "compacted"
    or code == "unavailable" and core.now() >= self._deadline
  return nil, message, code, failure
end

-- Reads the keys from the index `first` to the index `last` of the list `kvs` again, with their
-- values, and sets their values and leases. Returns the number of bytes of the values; or what
-- Snapshot:read returns if it fails.
local function read_some_values(snapshot, kvs, first, last)
  local txn, bytes = snapshot:txn(), 0
  for i = first, last do
    txn:list(kvs[i].key, kvs[i].key .. "\0", snapshot.revision)
  end
  local results, message, code, failure = snapshot:read(txn)
  if not results then
    return nil, message, code, failure
  end
  for i = first, last do
    local kv = results[i - first + 1][1]
    if kv then
      kvs[i].lease, kvs[i].value, bytes = kv.lease, kv.value, bytes + #kv.value
    end
  end
  return bytes
end

--- Sets the values and leases of `kvs`, which were read without values, and therefore on etcd 3.7
-- without leases. Returns true; or nil, message, code.
function Snapshot:read_values(kvs)
  local first, count = 1, FEW_VALUES
  while first <= #kvs do
    local last = math.min(first + count - 1, #kvs)
    local bytes, message, code, failure = read_some_values(self, kvs, first, last)
    if bytes then
      first = last + 1
      count = bytes <= SMALL_BYTES and MANY_VALUES or FEW_VALUES
    elseif failure == "too large" and last > first then
      count = count > FEW_VALUES and FEW_VALUES or 1
    else
      return nil, message, code
    end
  end
  return true
end

--- Calls visit(page) for each page of the keys from `from` to `to`, exclusive. A page is a list of
-- keys without values. Returns true; or nil, message, code.
function Snapshot:each_page(from, to, visit)
  local page
  repeat
    local txn = self:txn()
    txn:keys(from, to, self.revision, PAGE_KEYS)
    local results, message, code = self:read(txn)
    if not results then
      return nil, message, code
    end
    page = results[1]
    visit(page)
    from = page[1] and page[#page].key .. "\0"
  until #page < PAGE_KEYS
  return true
end

--- Calls read_all(snapshot) and returns its results. If etcd has compacted the revision of the
-- snapshot meanwhile, calls read_all again with a new snapshot. At the time `deadline` (core.now)
-- gives up and returns nil, message, "unavailable". The message of a failure begins with `what`.
function M.read(client, what, deadline, read_all)
  local snapshot
  repeat
    snapshot = setmetatable({ _client = client, _deadline = deadline }, Snapshot)
    local results, second, third = read_all(snapshot) -- three results; or nil, message, code
    if not snapshot._is_over then
      if not results then
        second = string.format("%s: %s", what, second)
      end
      return results, second, third
    end
  until core.now() >= deadline
  local message = snapshot._message
  if snapshot.revision then
    message = "too many keys, or etcd is too slow, to read all keys in time; " .. message
  end
  return nil, string.format("%s: %s", what, message), "unavailable"
end

--- Returns the range of all keys that begin with `prefix`: the first of these keys, and the first
-- key after them. If no key can be after them, as for the empty prefix, the second result is "\0",
-- by which etcd means a range without end.
function M.range_of(prefix)
  local head = prefix:gsub("\255*$", "")
  local after = head == "" and "\0" or head:sub(1, -2) .. string.char(head:byte(-1) + 1)
  return prefix == "" and "\0" or prefix, after
end

return M
