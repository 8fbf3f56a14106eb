--- An election: who is the first in the queue of a name leads, and says something, which
-- others observe. In one line with Go's concurrency.Election and etcdctl elect.
-- @classmod election
-- @alias Election
local Observer = require "etcdlock.observer"
local candidates = require "etcdlock.candidates"
local check = require "etcdlock.check"
local forms = require "etcdlock.forms"
local names = require "etcdlock.names"
local quote = require("etcdlock.characters").quote

local Election = {}
Election.__index = Election
Election.__name = "etcdlock.election"

--- Stands, says `value`, and waits until it leads. A leadership is a lock like any other, with
-- its methods and `proclaim` and `resign`. One that is lost is lost like a lock: its holder
-- knows before the next one leads, if it looks. The same owner who says the same has the same
-- leadership again, `count` + 1; with another value the call fails with `deadlock`: use
-- `proclaim`. In nginx it ends with its request or timer.
-- @function election:campaign
-- @tparam string value up to 4096 bytes
-- @tparam[opt] lock_options opts without `linger` and `value`
-- @treturn lock
-- @fail as client:lock
-- @raise for an unknown option, a wrong type

--- As `client:try_lock`, for the lead.
-- @function election:try_campaign
-- @tparam string value up to 4096 bytes
-- @tparam[opt] lock_options opts without `linger` and `value`
-- @treturn lock
-- @fail as client:try_lock
-- @raise for an unknown option, a wrong type

--- As `client:with_lock`, for the lead.
-- @function election:with_leadership
-- @tparam string value up to 4096 bytes
-- @tparam[opt] lock_options opts without `linger` and `value`; may be left out
-- @tparam body fn called with the leadership
-- @treturn true
-- @treturn any what `fn` has returned
-- @fail as client:with_lock
-- @raise an error in `fn`, the same object; for an unknown option, a wrong type

--- As `client:lock_async`, for the lead.
-- @function election:campaign_async
-- @tparam string value up to 4096 bytes
-- @tparam[opt] lock_options opts without `linger` and `value`
-- @treturn pending
-- @fail as client:lock_async
-- @raise for an unknown option, a wrong type
forms.add(Election, "election", "campaign", function(self, value, ...)
  return self._client, { mode = "leader", name = self._name, says = value }, ...
end, "with_leadership")

-- ---- who leads ----

--- Tells who leads at this moment, as the majority of the cluster has it. A key is a candidate's
-- only if it is attached to the lease that its name contains.
-- @treturn[1] string what the leader says
-- @treturn[1] string its key
-- @treturn[1] token of the leader
-- @treturn[2] nil nobody leads
-- @fail a request's
function Election:leader()
  local client = self._client
  local leader, message, code = candidates.leader(client, self._full, client._ask_ends())
  if leader == nil then
    return nil, message, code
  elseif not leader then
    return nil
  end
  return leader.value, leader.key, leader.token
end

--- Makes an observer, which reports the current leader and then each change of the leader or its
-- value. It always ends with the newest leader and never reports an older one after a newer one;
-- intermediate leaders and values may be skipped. It also reports when nobody leads any more.
-- Sends no request itself. Returns four values, as Lua's `for` wants them; elsewhere put the call
-- in parentheses, as in `table.insert(list, (election:observe()))`.
-- @treturn observer
-- @treturn nil
-- @treturn nil
-- @treturn observer that Lua 5.4 closes when the loop ends
-- @fail never
function Election:observe()
  local observer = Observer.new(self._client, self._name, self._full)
  return observer, nil, nil, observer
end

--- Tells the name it was asked for by, without the client's prefix.
-- @treturn string
-- @fail never
function Election:name()
  return self._name
end

function Election:__tostring()
  return string.format("etcdlock.election %s", quote(self._name))
end

check.methods(Election, "election")

-- For client:election.
-- @return election | nil, message, "invalid"
function Election.new(client, name)
  local full, message, code = names.full("client:election", client._prefix, name)
  if not full then
    return nil, message, code
  end
  return setmetatable({ _client = client, _name = name, _full = full }, Election)
end

return Election
