--- Who stands in the line of an election, and who of them leads: the oldest. A candidate is
-- a table: key, value (what he says), since (the create_revision of his key, his token).
-- They are kept by key.
local core = require "etcdlock.core"

local M = {}

-- So many of what stands below the name are asked for where only the first counts, and all
-- if none of these is a candidate's.
local FEW, ALL = 4, 0

--- Does whoever has this key stand in the line? A semaphore of that name is another one.
function M.counts(full, key)
  local lease, mode = core.parse_key(full, key)
  return lease ~= nil and mode ~= "permit"
end

--- What stands below the name: a list of keys, the oldest first, and the revision at which
-- they stood there | nil, message, code.
local function ask(client, full, seconds, revision, limit)
  local txn = client._core:txn()
  txn:list(full .. "/", full .. "0", revision, limit)
  local ok, message, results, now = client:_ask(txn, seconds)
  if not ok then
    return nil, message, results
  end
  return results[1], revision or now
end

local function read(kv)
  return { key = kv.key, value = kv.value, since = kv.create_revision }
end

--- All of them, and the revision at which they stood there. Through the quorum.
-- @param seconds that it may take; nil: as any question
-- @param revision as they stood then; nil: now
-- @return candidates, revision | nil, message, code: "invalid" if etcd knows that revision
--   no more, or not yet
function M.list(client, full, seconds, revision)
  local kvs, at, code = ask(client, full, seconds, revision)
  if not kvs then
    return nil, at, code
  end
  local candidates = {}
  for _, kv in ipairs(kvs) do
    if M.counts(full, kv.key) then
      candidates[kv.key] = read(kv)
    end
  end
  return candidates, at
end

local function first_of(kvs, full)
  for _, kv in ipairs(kvs) do
    if M.counts(full, kv.key) then
      return read(kv)
    end
  end
end

--- Who leads now, as the cluster's majority has it.
-- @return candidate; false: nobody | nil, message, code
function M.leader(client, full)
  for _, limit in ipairs { FEW, ALL } do
    local kvs, message, code = ask(client, full, nil, nil, limit)
    if not kvs then
      return nil, message, code
    end
    local first = first_of(kvs, full)
    if first or #kvs < FEW then
      return first or false
    end
  end
  return false
end

--- Who of them leads; nil: nobody.
function M.first(candidates)
  local first
  for _, candidate in pairs(candidates) do
    if not first or candidate.since < first.since then
      first = candidate
    end
  end
  return first
end

return M
