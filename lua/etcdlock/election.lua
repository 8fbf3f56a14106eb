--- An election: who is the first in the queue of a name leads, and says something, which
-- others observe. In one line with Go's concurrency.Election and etcdctl elect.
local Observer = require "etcdlock.observer"
local candidates = require "etcdlock.candidates"
local check = require "etcdlock.check"
local forms = require "etcdlock.forms"
local lock_options = require "etcdlock.lock_options"

local Election = {}
Election.__index = Election
Election.__name = "etcdlock.election"

--- election:campaign(value, opts) waits until it leads, and says `value` meanwhile and
-- then. The same owner has the same leadership again, with count + 1, if he says the same.
-- try_campaign(value, opts), with_leadership(value, opts, fn) and campaign_async(value,
-- opts) are as those of a client.
-- @return a lock like any other, with proclaim(value) and resign() | nil, message, code as
--   for client:lock
forms.add(Election, "election", "campaign", function(self, value, ...)
  return self._client, { mode = "leader", name = self._name, says = value }, ...
end, "with_leadership")

-- ---- who leads ----

--- Who leads at this moment, as the cluster's majority has it.
-- @return what he says, his key, its create_revision (his token) | nil: nobody does |
--   nil, message, code
function Election:leader()
  local leader, message, code = candidates.leader(self._client, self._full)
  if not leader then
    return nil, message, code
  end
  return leader.value, leader.key, leader.since
end

--- Who leads, and what he says, as it comes: `for value, key, token in election:observe() do`,
-- or observer:next(timeout). See observer.lua. Asks nobody.
-- @return observer, nil, nil, observer: so Lua 5.4 closes it when the loop ends
function Election:observe()
  local observer = Observer.new(self._client, self._name, self._full)
  return observer, nil, nil, observer
end

--- The name it was asked for by, without the client's prefix.
function Election:name()
  return self._name
end

function Election:__tostring()
  return string.format("etcdlock.election %q", self._name)
end

check.methods(Election, "election")

--- For client:election.
-- @return election | nil, message, "invalid"
function Election.new(client, name)
  local full, message, code = lock_options.name("client:election", client._prefix, name)
  if not full then
    return nil, message, code
  end
  return setmetatable({ _client = client, _name = name, _full = full }, Election)
end

return Election
