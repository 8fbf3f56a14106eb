--- What our key in a queue says about us: a small JSON object, read by
-- client:queue and by whoever looks into etcd; other clients ignore it.
local cjson = require "cjson.safe"
local core = require "etcdlock.core"

local M = {}

--- The label of a request: who (host, pid, owner if it has a name), since when
-- (unix seconds) and the caller's own value.
function M.write(owner, value)
  local named = type(owner) == "string" or type(owner) == "number"
  return assert(cjson.encode {
    host = core.host(),
    pid = core.pid(),
    since = os.time(),
    owner = named and tostring(owner) or nil,
    value = value,
  })
end

--- The fields of a label; none if the key was written by another client.
function M.read(text)
  local label = cjson.decode(text)
  return type(label) == "table" and label or {}
end

return M
