--- Who stands in the line of an election, and who of them leads: the oldest. A candidate is
-- a table: key, value (what he says), since (the create_revision of his key, his token),
-- changed (its mod_revision). They are kept by key.
local core = require "etcdlock.core"

local M = {}

--- Does whoever has this key stand in the line? A semaphore of that name is another one.
function M.counts(full, key)
  local lease, mode = core.parse_key(full, key)
  return lease ~= nil and mode ~= "permit"
end

--- All of them, and the revision at which they stood there. Through the quorum.
-- @param seconds that it may take; nil: as any question
-- @return candidates, revision | nil, message, code
function M.list(client, full, seconds)
  local txn = client._core:txn()
  txn:list(full .. "/", full .. "0")
  local ok, message, results, revision = client:_ask(txn, seconds)
  if not ok then
    return nil, message, results
  end
  local candidates = {}
  for _, kv in ipairs(results[1]) do
    if M.counts(full, kv.key) then
      candidates[kv.key] = {
        key = kv.key, value = kv.value, since = kv.create_revision, changed = kv.mod_revision,
      }
    end
  end
  return candidates, revision
end

--- Who leads; nil: nobody.
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
