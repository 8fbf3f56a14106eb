--- An election: the first candidate in the queue of a name leads and publishes a value, which other
-- clients read or observe. It shares its queue with Go's concurrency.Election and `etcdctl elect`.
-- @classmod election
-- @alias Election
local Observer = require "etcdlock.observer"
local acquire = require "etcdlock.acquire"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local names = require "etcdlock.names"
local quote = require("etcdlock.text").quote

local Election = {}
Election.__index = Election
Election.__name = "etcdlock.election"

-- Number of keys below the name that are read at first; 0: all. If no key among the first is a
-- candidate's, all are read.
local FIRST_KEYS, ALL_KEYS = 4, 0

-- ---- campaigns ----

--- Takes part in the election with `value`, and waits until this candidate leads. Returns the
-- leadership: a lock that also has `proclaim` and `resign`. It can be lost like any lock, and its
-- holder can tell before the next candidate leads. In nginx the leadership ends with
-- its nginx request or timer.
--
-- If the owner leads already with the same value, the call returns the same leadership, with
-- `count` + 1. With another value the call fails with `deadlock`: use `proclaim`.
-- @function election:campaign
-- @tparam string value up to 4096 bytes
-- @tparam[opt] lock_options opts without `linger` and `value`
-- @treturn lock
-- @fail as client:lock
-- @raise for an unknown option, a wrong type

--- As `client:try_lock`, for the leadership.
-- @function election:try_campaign
-- @tparam string value up to 4096 bytes
-- @tparam[opt] lock_options opts without `linger` and `value`
-- @treturn lock
-- @fail as client:try_lock
-- @raise for an unknown option, a wrong type

--- As `client:with_lock`, for the leadership.
-- @function election:with_leadership
-- @tparam string value up to 4096 bytes
-- @tparam[opt] lock_options opts without `linger` and `value`; may be left out
-- @tparam body fn called with the leadership
-- @treturn true
-- @treturn any results of `fn`
-- @fail as client:with_lock
-- @raise an error of `fn`, the same object; for an unknown option, a wrong type

--- As `client:lock_async`, for the leadership.
-- @function election:campaign_async
-- @tparam string value up to 4096 bytes
-- @tparam[opt] lock_options opts without `linger` and `value`
-- @treturn pending
-- @fail as client:lock_async
-- @raise for an unknown option, a wrong type
acquire.add(Election, "election", "campaign", function(self, value, ...)
  return self._client, { mode = "leader", name = self._name, leader_value = value }, ...
end, "with_leadership")

-- ---- the leader ----

-- Reads the first `limit` keys below the name, the oldest first, through a majority of the members:
-- keys, revision | nil, message, code.
local function read_keys(self, deadline, limit)
  local txn = self._client._core:txn()
  txn:list(self._full_name .. "/", self._full_name .. "0", nil, limit)
  local ok, message, results, revision = self._client:_run_txn(txn, deadline)
  if not ok then
    return nil, message, results -- results is the code
  end
  return results[1], revision
end

-- Returns the leader among the keys: the oldest candidate. A permit of a semaphore with the same
-- name is no candidate.
local function find_leader(self, kvs)
  for _, kv in ipairs(kvs) do
    local lease, mode = core.parse_key(self._full_name, kv.key, kv.lease)
    if lease and mode ~= "permit" then
      return { key = kv.key, value = kv.value, token = kv.create_revision }
    end
  end
end

-- Reads the leader, with requests until the time `deadline`, for observer.lua too. Returns a table
-- (key, value, token), or false if nobody leads, and the store revision of the answer; nil,
-- message, code if it cannot be read.
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

--- Reads the current leader through a majority of etcd's members. Only keys that are attached to
-- the lease in their name are candidates. Other keys below the name are user data.
-- @treturn[1] string value of the leader
-- @treturn[1] string its key
-- @treturn[1] token of the leader
-- @treturn[2] nil nobody leads
-- @fail a request's
function Election:leader()
  local leader, message, code = self:_read_leader(self._client._get_deadline())
  if leader == nil then
    return nil, message, code
  elseif not leader then
    return nil
  end
  return leader.value, leader.key, leader.token
end

--- Creates an observer, which reports the current leader and then each change of the leader or its
-- value. It always ends with the newest leader, and never reports an older one after a newer one.
-- It may skip leaders and values in between. It also reports when nobody leads any more. Sends no
-- request.
--
-- The call returns four values, as Lua's `for` needs them. Elsewhere put it in parentheses, as in
-- `table.insert(list, (election:observe()))`.
-- @treturn observer
-- @treturn nil
-- @treturn nil
-- @treturn observer that Lua 5.4 closes when the loop ends
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
  return string.format("etcdlock.election %s", quote(self._name))
end

check.methods(Election, "election")

-- Creates an election, for client:election: election | nil, message, "invalid".
function Election.new(client, name)
  local full_name, message, code = names.add_prefix("client:election", client._prefix, name)
  if not full_name then
    return nil, message, code
  end
  return setmetatable({ _client = client, _name = name, _full_name = full_name }, Election)
end

return Election
