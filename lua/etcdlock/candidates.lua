--- The candidates of an election and the leader: the oldest candidate.
local core = require "etcdlock.core"

local M = {}

-- Number of keys below the name that are read at first; if none of them is a candidate's, all
-- are read.
local FEW, ALL = 4, 0

-- Returns true if the key of `kv` is a candidate's. The permits of a semaphore of the same name
-- are not.
local function counts(full, kv)
  local lease, mode = core.parse_key(full, kv.key, kv.lease)
  return lease ~= nil and mode ~= "permit"
end

-- Reads `limit` keys below the name, the oldest first, through a majority of the members:
-- keys, revision | nil, message, code.
local function list(client, full, ends, limit)
  local txn = client._core:txn()
  txn:list(full .. "/", full .. "0", nil, limit)
  local ok, message, results, revision = client:_ask(txn, ends)
  if not ok then
    return nil, message, results
  end
  return results[1], revision
end

local function first_of(kvs, full)
  for _, kv in ipairs(kvs) do
    if counts(full, kv) then
      return { key = kv.key, value = kv.value, token = kv.create_revision }
    end
  end
end

--- Reads who leads.
-- @param ends until when to ask
-- @return the leader (key, value, token); false: nobody leads, and the store revision of that
--   answer | nil, message, code
function M.leader(client, full, ends)
  local kvs, revision, code = list(client, full, ends, FEW)
  if kvs and #kvs == FEW and not first_of(kvs, full) then
    kvs, revision, code = list(client, full, ends, ALL)
  end
  if not kvs then
    return nil, revision, code
  end
  return first_of(kvs, full) or false, revision
end

return M
