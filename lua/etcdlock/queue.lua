--- Who holds a lock of a client and who waits for it, whoever they are.
-- @submodule client
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local label = require "etcdlock.label"
local names = require "etcdlock.names"
local quote = require("etcdlock.characters").quote
local snapshots = require "etcdlock.snapshot"

local M = {}

-- Returns the lease of each key.
local function leases_of(kvs)
  local leases = {}
  for _, kv in ipairs(kvs) do
    leases[kv.key] = kv.lease
  end
  return leases
end

-- Does the writer whose key is that of `writer` only read any more? Its note is attached to the
-- same lease.
local function is_downgraded(leases, full, writer)
  return leases[core.downgrade_note(full, writer.create_revision)] == writer.lease
end

-- Does the next entry in line hold? `line` remembers the entries before it: the number of those
-- for permits, and the last of the others.
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

-- The names of a multi-lock, with their prefix, as its label says, if `full` is one of them.
local function fulls_of(said, full)
  for _, one in ipairs(said.names or {}) do
    if one == full then
      return said.names
    end
  end
end

-- The places of one queue, from what stands below its name, the oldest first.
local function read_line(kvs, full)
  local places, line, leases = {}, { permits = 0 }, leases_of(kvs)
  for _, kv in ipairs(kvs) do
    local is_entry, mode, permits = core.parse_key(full, kv.key, kv.lease)
    if is_entry then
      local said = label.read(kv.value)
      if mode == "write" and is_downgraded(leases, full, kv) then
        mode = "read"
      end
      places[#places + 1] = {
        held = is_held(line, mode, permits),
        token = kv.create_revision,
        lease = kv.lease,
        mode = mode,
        key = kv.key,
        host = said.host,
        pid = said.pid,
        since = said.since,
        owner = said.owner,
        lock_delay = said.lock_delay,
        value = said.value or next(said) == nil and kv.value ~= "" and kv.value or nil,
        fulls = mode == "multi" and fulls_of(said, full) or nil,
        first = mode == "multi" and said.first or nil,
      }
    end
  end
  return places
end

local function find(places, token)
  for _, place in ipairs(places) do
    if place.token == token then
      return place
    end
  end
end

-- ---- the other names of a multi-lock ----

-- What its keys end with, the same below each name.
local function key_end(place)
  return place.key:match "/[^/]*$"
end

-- The names of the multi-lock of `place`, an entry of the queue of `full`, as the key below the
-- first name says; false: that key is gone; nil: etcd did not tell.
local function ask_first(snapshot, full, place)
  local txn, key = snapshot:txn(), place.first .. key_end(place)
  txn:list(key, key .. "\0", snapshot.revision)
  local results = snapshot:ask(txn)
  if not results then
    return nil
  end
  local kv = results[1][1]
  if kv and kv.create_revision == place.token and kv.lease == place.lease then
    return fulls_of(label.read(kv.value), full) or false
  end
  return false
end

-- So many keys are read below each name. Another client has written the names into its label, and
-- any amount of data may be below them.
local KEYS = 1000

-- Is the entry of the multi-lock of `place` the first one in the queue of `full`? `kvs`: the oldest
-- keys there. nil: no entry is among them, but there are more.
local function is_first(kvs, full, place)
  for _, kv in ipairs(kvs) do
    local is_entry, mode = core.parse_key(full, kv.key, kv.lease)
    if is_entry and mode ~= "permit" then
      return kv.key == full .. key_end(place) and kv.create_revision == place.token
    end
  end
  return #kvs == KEYS and nil
end

-- Is it the first one in the queues of all `fulls`? nil: etcd did not tell.
local function ask_all(snapshot, fulls, place)
  local txn, answer = snapshot:txn(), true
  for _, full in ipairs(fulls) do
    txn:oldest_keys(full .. "/", full .. "0", snapshot.revision, KEYS)
  end
  local results = snapshot:ask(txn)
  if not results then
    return nil
  end
  for i, full in ipairs(fulls) do
    local first = is_first(results[i], full, place)
    if first == false then
      return false
    end
    answer = answer and first
  end
  return answer
end

-- A multi-lock holds its names if it is the first one in the queue of each. Corrects the `held` of
-- one that is that in the queue of `full`: nil if the other queues can't be read. Adds its names if
-- it holds them.
local function look_at_others(snapshot, full, place)
  local fulls = place.fulls
  if place.first then
    fulls = ask_first(snapshot, full, place)
  end
  place.held = fulls and ask_all(snapshot, fulls, place)
  place.fulls = (place.held or not place.first) and fulls or nil
end

-- The places in the queue of `full`, of which `kvs` are the keys.
local function read_places(snapshot, full, kvs)
  local places = read_line(kvs, full)
  for _, place in ipairs(places) do
    if place.held and (place.fulls or place.first) then
      look_at_others(snapshot, full, place)
    end
  end
  return places
end

-- The places in the queue of a name | nil, message, code.
local function list(self, where, name, ends)
  local full, message, code = names.full(where, self._prefix, name)
  if not full then
    return nil, message, code
  end
  return snapshots.read(self, ends, function(snapshot)
    local txn = snapshot:txn()
    txn:list(full .. "/", full .. "0")
    local results, text, failure = snapshot:ask(txn)
    if not results then
      return nil, text, failure
    end
    return read_places(snapshot, full, results[1])
  end)
end

-- Without the prefix of the client, where they have it.
local function names_of(self, fulls)
  local asked, prefix = {}, self._prefix
  for i, full in ipairs(fulls) do
    asked[i] = full:sub(1, #prefix) == prefix and full:sub(#prefix + 1) or full
  end
  return asked
end

-- Places as callers see them.
local function show(self, places)
  for _, place in ipairs(places) do
    place.names = place.fulls and names_of(self, place.fulls)
    place.fulls, place.first = nil, nil
  end
  return places
end

-- The places in the queue of a name (with its prefix), of which `kvs` are the keys, the oldest
-- first: a list as M.queue answers. For queues.lua.
function M.read(self, snapshot, full, kvs)
  return show(self, read_places(snapshot, full, kvs))
end

--- An entry of `client:queue`. The fields from `host` on are missing if another kind of client
-- wrote the key. A client has one entry for each mode, however many of its owners wait. It has
-- several for readers that do not share a key, and up to `n` for a semaphore.
-- @table entry
-- @tfield[opt] boolean held does it hold, or wait? Missing if it is unknown: for a multi-lock that
--   is the first here, if the queues of its other names can't be read
-- @tfield token token its fencing token
-- @tfield string lease in hex
-- @tfield mode mode `multi`, too, of who stands in an election and uses etcdlock
-- @tfield string key in etcd
-- @tfield[opt] string host the name of its machine
-- @tfield[opt] count pid its process there
-- @tfield[opt] time since when it asked
-- @tfield[opt] owner owner what the option `owner` says
-- @tfield[opt] seconds lock_delay what the option `lock_delay` says
-- @tfield[opt] string value what the option `value` says; of who stands in an election, what
--   he says
-- @tfield[opt] {string,...} names of who wants several: of who holds them under each, of who
--   waits under the first

--- Tells who holds the lock and who waits for it, the oldest first. A key below the name is an
-- entry only if it is attached to the lease that its name contains; any other key is user data.
-- @function client:queue
-- @tparam string name
-- @treturn {entry,...}
-- @fail a request's
-- @raise for a wrong type
function M:queue(name)
  local places, message, code = list(self, "client:queue", name, self._ask_ends())
  if not places then
    return nil, message, code
  end
  return show(self, places)
end

--- Takes the lock away from the holder that has this token, from no other; from one of several
-- names all of them. If it is unknown whether a multi-lock holds (`held` of `client:queue`), only
-- its key below this name is deleted, which ends the hold or the wait of all its names. Deletes no
-- user data: a key that is no entry is refused with `not_held`.
-- @function client:break_lock
-- @tparam string name
-- @tparam token token which `client:queue` tells
-- @treturn true
-- @fail not_held, or a request's
-- @raise for a wrong type
function M:break_lock(name, token)
  check.number("client:break_lock", "token", token)
  local ends = self._ask_ends()
  local places, message, code = list(self, "client:break_lock", name, ends)
  if not places then
    return nil, message, code
  end
  local txn, found = self._core:txn(), find(places, token)
  local nobody = string.format("lock %s is not held with token %.0f", quote(name), token)
  if not found or found.held == false then
    return nil, nobody, "not_held"
  end
  txn:guard(found.key, token, found.lease)
  if found.held and found.fulls then
    for _, full in ipairs(found.fulls) do
      txn:delete(full .. key_end(found))
    end
  else
    txn:delete(found.key)
  end
  local ok, held, results = self:_ask(txn, ends)
  if not ok then
    return nil, held, results
  elseif not held then
    return nil, nobody, "not_held"
  end
  return true
end

return M
