--- Who holds a lock of a client and who waits for it, whoever they are.
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local label = require "etcdlock.label"
local lock_options = require "etcdlock.lock_options"

local M = {}

-- Where the note stands that a writer only reads: rules/key.h.
local DOWNGRADED = "/write/read/"

--- Does the writer whose key has this create_revision only read any more?
local function is_downgraded(kvs, full, revision)
  local note = full .. DOWNGRADED .. string.format("%x", revision)
  for _, kv in ipairs(kvs) do
    if kv.key == note then
      return true
    end
  end
  return false
end

--- Does the next one in line hold? `line` remembers who came before: how many permits
-- are held, and the last of the others.
local function is_held(line, mode, permits)
  if mode == "permit" then
    line.permits = line.permits + 1
    return line.permits <= permits
  end
  local before = line.last
  local held = before == nil or (before.held and before.mode == "read" and mode == "read")
  line.last = { held = held, mode = mode }
  return held
end

local function list(self, where, name)
  local full, message, code = lock_options.name(where, self._prefix, name)
  if not full then
    return nil, message, code
  end
  local txn = self._core:txn()
  txn:list(full .. "/", full .. "0")
  local ok, held, results = self:_ask(txn)
  if not ok then
    return nil, held, results
  end
  local places, line = {}, { permits = 0 }
  for _, kv in ipairs(results[1]) do
    local lease, mode, permits = core.parse_key(full, kv.key)
    if lease then
      local said = label.read(kv.value)
      if mode == "write" and is_downgraded(results[1], full, kv.create_revision) then
        mode = "read"
      end
      places[#places + 1] = {
        held = is_held(line, mode, permits),
        token = kv.create_revision,
        lease = kv.lease or lease,
        mode = mode,
        key = kv.key,
        host = said.host,
        pid = said.pid,
        since = said.since,
        owner = said.owner,
        value = said.value,
      }
    end
  end
  return places
end

--- Who holds the lock and who waits for it, the oldest first.
-- @return a list of { held, token, lease, mode, key, host, pid, since (unix
--   seconds), owner, value }; the fields from host on are missing if another
--   kind of client wrote the key | nil, message, code
function M:queue(name)
  return list(self, "client:queue", name)
end

--- Takes the lock away from its holder, but only from the one with `token`.
-- @return true | nil, message, code: "not_held" if that token doesn't hold it
function M:break_lock(name, token)
  check.number("client:break_lock", "token", token)
  local places, message, code = list(self, "client:break_lock", name)
  if not places then
    return nil, message, code
  end
  local txn, found = self._core:txn(), nil
  for _, place in ipairs(places) do
    found = found or place.held and place.token == token and place
  end
  local nobody = string.format("lock %q is not held with token %.0f", name, token)
  if not found then
    return nil, nobody, "not_held"
  end
  txn:guard(found.key, token)
  txn:delete(found.key)
  local ok, held, results = self:_ask(txn)
  if not ok then
    return nil, held, results
  elseif not held then
    return nil, nobody, "not_held"
  end
  return true
end

return M
