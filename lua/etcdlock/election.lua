--- An election: the first candidate in the queue of a name leads and publishes a value, which other
-- clients read or observe. Candidates of Go's concurrency.Election and of `etcdctl elect` can queue
-- in the same election.
-- @classmod election
-- @alias Election
local Lock = require "etcdlock.lock"
local Observer = require "etcdlock.observer"
local acquire = require "etcdlock.acquire"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local names = require "etcdlock.names"
local quote = require("etcdlock.text").quote

local Election = {}
Election.__index = Election
Election.__name = "etcdlock.election"

-- Limits of the read that finds the leader. The first read asks for the FIRST_KEYS oldest keys
-- below the election's name. If it finds so many, and none is a candidate's, a second read asks for
-- all keys (0 means no limit).
local FIRST_KEYS, ALL_KEYS = 4, 0

-- ---- campaigns ----

--- Takes part in the election with `value`, and waits until this candidate leads. Returns the
-- leadership: a lock that also has `proclaim` and `resign`. It can be lost like any lock.
--
-- If the owner leads already with the same value, the call returns the same leadership, with
-- `count` + 1. If the owner leads with another value, the call fails with `deadlock`. To change the
-- value, use `proclaim`.
-- @function election:campaign
-- @forms the leadership
-- @tparam string value up to 4096 bytes
-- @tparam[opt] lock_options opts without `linger` and `value`
-- @treturn lock
-- @fail as client:lock

--- As `client:with_lock`, for the leadership.
-- @function election:with_leadership
-- @tparam string value up to 4096 bytes
-- @tparam[opt] lock_options opts without `linger` and `value`
-- @tparam body fn called with the leadership
-- @treturn true
-- @treturn any results of `fn`
-- @fail as client:with_lock
-- @raise an error of `fn`, the same object
acquire.add(Election, "election", "campaign", function(self, value, ...)
  local lock = Lock.new(self._client, "leader", self._name)
  lock._leader_value = value
  return lock, ...
end, "with_leadership")

-- ---- the leader ----

-- Reads the `limit` oldest keys below the name (0: all keys) through a majority of the members.
-- Returns the keys, the oldest first, and the store revision. If the read fails, returns nil,
-- message, code.
local function read_keys(self, deadline, limit)
  local txn = self._client._core:txn()
  txn:list(self._full_name .. "/", self._full_name .. "0", nil, limit)
  local ok, message, results, revision = self._client:_run_txn(txn, deadline)
  if not ok then
    return nil, message, results -- results is the code
  end
  return results[1], revision
end

-- Returns the leader among `kvs`: the first key that is a candidate's; nil if there is none. A
-- permit of a semaphore with the same name is no candidate.
local function find_leader(self, kvs)
  for _, kv in ipairs(kvs) do
    local lease, mode = core.parse_key(self._full_name, kv.key, kv.lease)
    if lease and mode ~= "permit" then
      return { key = kv.key, value = kv.value, token = kv.create_revision }
    end
  end
end

-- Reads the leader with requests that wait for etcd until the time `deadline`. observer.lua calls
-- this, too. Returns the leader (a table with the fields key, value and token; false: nobody leads)
-- and the store revision of the answer. If the read fails, returns nil, message, code.
function Election:_read_leader(deadline)
  local kvs, revision, code = read_keys(self, deadline, FIRST_KEYS)
  if kvs and #kvs == FIRST_KEYS and not find_leader(self, kvs) then
    kvs, revision, code = read_keys(self, deadline, ALL_KEYS)
  end
  if not kvs then
    return nil, revision, code -- revision is the message
  end
  return find_leader(self, kvs) or false, revision
end

--- Reads the current leader through a majority of etcd's members, so the result was true at a time
-- during the call. If etcd does not answer, the call fails with `unavailable` after 5 s.
-- [User data](README.md#terms) below the name is no candidate.
-- @treturn[1] string value of the leader
-- @treturn[1] string key of the leader
-- @treturn[1] token of the leader
-- @treturn[2] false nobody leads
-- @fail a request error
function Election:leader()
  local leader, message, code = self:_read_leader(self._client._get_deadline())
  if leader == nil then
    return nil, string.format("election %s: %s", quote(self._full_name), message), code
  elseif not leader then
    return false
  end
  return leader.value, leader.key, leader.token
end

--- Creates an observer, which reports the current leader, then changes of the leader or its value,
-- when nobody leads any more, and when it is unknown who leads. Does not wait for etcd.
--
-- The call returns four values, as Lua's `for` needs them. Outside a `for`, put the call in
-- parentheses, which leaves only the observer, as in `table.insert(list, (election:observe()))`.
-- @treturn observer
-- @treturn nil
-- @treturn nil
-- @treturn observer the same one, which Lua 5.4 closes when the loop ends
-- @fail never
function Election:observe()
  local observer = Observer.new(self)
  return observer, nil, nil, observer
end

--- Returns the name of the election, without the client's prefix.
-- @treturn string
-- @fail never
function Election:name()
  return self._name
end

function Election:__tostring()
  return string.format("etcdlock.election %s", quote(self._full_name))
end

check.methods(Election, "election")

-- Creates an election; client:election calls this. Returns nil, message, "invalid" if the name is
-- not allowed.
function Election.new(client, name)
  local full_name, message, code = names.add_prefix("client:election", client._prefix, name)
  if not full_name then
    return nil, message, code
  end
  return setmetatable({ _client = client, _name = name, _full_name = full_name }, Election)
end

return Election
