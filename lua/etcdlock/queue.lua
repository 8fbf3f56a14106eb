--- Who holds a lock of a client and who waits for it, whoever they are.
-- @submodule client
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local label = require "etcdlock.label"
local names = require "etcdlock.names"
local quote = require("etcdlock.characters").quote

local M = {}

-- Does the writer whose key is that of `writer` only read any more? Its note is attached to the
-- same lease.
local function is_downgraded(kvs, full, writer)
  local note = core.downgrade_note(full, writer.create_revision)
  for _, kv in ipairs(kvs) do
    if kv.key == note and kv.lease == writer.lease then
      return true
    end
  end
  return false
end

-- Does the next one in line hold? `line` remembers who came before: how many permits
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

-- The names of who locks several, with their prefix, as the key of the first says; this
-- one is among them, or somebody else has written that.
local function fulls_of(said, full)
  for _, one in ipairs(said.names or {}) do
    if one == full then
      return said.names
    end
  end
end

-- The places of one queue, from what stands below its name, the oldest first.
local function read_line(kvs, full)
  local places, line = {}, { permits = 0 }
  for _, kv in ipairs(kvs) do
    local is_entry, mode, permits = core.parse_key(full, kv.key, kv.lease)
    if is_entry then
      local said = label.read(kv.value)
      if mode == "write" and is_downgraded(kvs, full, kv) then
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

-- What stands in the queues of several names: their lines, and the revision | nil,
-- message, code. At `revision`, or now.
local function ask(self, fulls, revision)
  local txn = self._core:txn()
  for _, full in ipairs(fulls) do
    txn:list(full .. "/", full .. "0", revision)
  end
  local ok, held, results, found_at = self:_ask(txn)
  if not ok then
    return nil, held, results
  end
  local lines = {}
  for i, full in ipairs(fulls) do
    lines[i] = read_line(results[i], full)
  end
  return lines, found_at
end

local function find(places, token)
  for _, place in ipairs(places) do
    if place.token == token then
      return place
    end
  end
end

-- The names of who locks several, as the key of the first says, if that is there: true,
-- names | nil, message, code.
local function ask_first(self, place, revision)
  local lines, message, code = ask(self, { place.first }, revision)
  if not lines then
    return nil, message, code
  end
  local there = find(lines[1], place.token)
  return true, there and there.fulls
end

-- Who wants several names holds them if he is the first under each, and all his keys are
-- there. Corrects the `held` of one who is that under one of them, and adds which they are,
-- if he does hold them: true | nil, message, code.
local function look_at_others(self, place, revision)
  local ok, fulls, code = true, place.fulls, nil
  if place.first then
    ok, fulls, code = ask_first(self, place, revision)
  end
  if not ok or not fulls then
    place.held = false
    return ok, fulls, code
  end
  local lines, message
  lines, message, code = ask(self, fulls, revision)
  if not lines then
    return nil, message, code
  end
  for _, line in ipairs(lines) do
    local there = find(line, place.token)
    place.held = place.held and there ~= nil and there.held
  end
  place.fulls = (place.held or not place.first) and fulls or nil
  return true
end

--- Corrects the `held` of those who hold several names, of the places of one queue as it
-- was at `revision`: the places | nil, message, code.
local function look_at_multis(self, places, revision)
  for _, place in ipairs(places) do
    local ok, message, code = true, nil, nil
    if place.held and (place.fulls or place.first) then
      ok, message, code = look_at_others(self, place, revision)
    end
    if not ok then
      return nil, message, code
    end
  end
  return places
end

local function list(self, where, name)
  local full, message, code = names.full(where, self._prefix, name)
  if not full then
    return nil, message, code
  end
  local lines, revision
  lines, revision, code = ask(self, { full })
  if not lines then
    return nil, revision, code
  end
  return look_at_multis(self, lines[1], revision)
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

-- The places in the queue of a name (with its prefix), from what stands below it at
-- `revision`, the oldest first: a list as M.queue answers | nil, message, code. For
-- queues.lua.
function M.read(self, full, kvs, revision)
  local places, message, code = look_at_multis(self, read_line(kvs, full), revision)
  if not places then
    return nil, message, code
  end
  return show(self, places)
end

--- An entry of `client:queue`. The fields from `host` on are missing if another kind of client
-- wrote the key. A client has one entry in a mode, however many of its owners wait; several of
-- readers who don't share, and of permits as many as there are.
-- @table entry
-- @tfield boolean held does it hold, or wait?
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
  local places, message, code = list(self, "client:queue", name)
  if not places then
    return nil, message, code
  end
  return show(self, places)
end

--- Takes the lock away from the holder that has this token, from no other; from one of several
-- names all of them. Deletes no user data: a key that is no entry is refused with `not_held`.
-- @function client:break_lock
-- @tparam string name
-- @tparam token token which `client:queue` tells
-- @treturn true
-- @fail not_held, or a request's
-- @raise for a wrong type
function M:break_lock(name, token)
  check.number("client:break_lock", "token", token)
  local places, message, code = list(self, "client:break_lock", name)
  if not places then
    return nil, message, code
  end
  local txn, found = self._core:txn(), find(places, token)
  local nobody = string.format("lock %s is not held with token %.0f", quote(name), token)
  if not found or not found.held then
    return nil, nobody, "not_held"
  end
  txn:guard(found.key, token, found.lease)
  if found.fulls then
    for _, full in ipairs(found.fulls) do
      txn:delete(full .. found.key:match "/[^/]*$")
    end
  else
    txn:delete(found.key)
  end
  local ok, held, results = self:_ask(txn)
  if not ok then
    return nil, held, results
  elseif not held then
    return nil, nobody, "not_held"
  end
  return true
end

return M
