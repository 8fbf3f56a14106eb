--- The reads of one call, all of etcd as it was at one revision: that of the first answer.
local core = require "etcdlock.core"

local Snapshot = {}
Snapshot.__index = Snapshot

-- The code of a read at a revision that etcd has compacted.
local COMPACTED = "invalid"

--- A transaction, for `ask`; its reads take `revision` as an argument.
function Snapshot:txn()
  return self._client._core:txn()
end

--- Sends it: results | nil, message, code.
function Snapshot:ask(txn)
  if self._is_over then
    return nil, self._message, "unavailable"
  end
  local ok, held, results, revision = self._client:_ask(txn, self._ends)
  if ok then
    self.revision = self.revision or revision
    return results
  end
  self._message = held
  self._is_over = self.revision and results == COMPACTED
    or results == "unavailable" and core.now() >= self._ends
  return nil, held, results
end

local M = {}

--- Calls read(snapshot), and again, with a new one, if etcd has compacted the revision meanwhile:
-- its results | nil, message, code. Asks etcd until `ends`; what is not read by then fails with
-- `unavailable`.
function M.read(client, ends, read)
  local snapshot
  repeat
    snapshot = setmetatable({ _client = client, _ends = ends }, Snapshot)
    local found, message, code = read(snapshot)
    if not snapshot._is_over then
      return found, message, code
    end
  until core.now() >= ends
  return nil, snapshot._message, "unavailable"
end

return M
