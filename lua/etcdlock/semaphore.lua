--- A semaphore: a name of which so many permits are held at a time, in the order in
-- which they were asked for.
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local forms = require "etcdlock.forms"
local lock_options = require "etcdlock.lock_options"

local Semaphore = {}
Semaphore.__index = Semaphore
Semaphore.__name = "etcdlock.semaphore"

--- Takes a permit, and waits for one: a lock like any other, whose mode is "permit". The
-- same owner gets the permit that it has again, with count + 1. semaphore:lock(opts),
-- try_lock(opts), with_lock(opts, fn) and lock_async(opts) are as those of a client.
-- @return as for client:lock; "locked" if none is free; "conflict" if the others know this
--   semaphore with another number of permits
forms.add(Semaphore, "semaphore", "lock", function(self, ...)
  return self._client, { mode = "permit", name = self._name, permits = self._permits }, ...
end)

--- How many permits are free at the moment: others may take them before you do.
-- @return number | nil, message, code
function Semaphore:available()
  local client, txn = self._client, self._client._core:txn()
  txn:list(self._full .. "/permit/", self._full .. "/permit0")
  local ok, held, results = client:_ask(txn)
  if not ok then
    return nil, held, results
  end
  local taken = 0
  for _, kv in ipairs(results[1]) do
    local lease, _, permits = core.parse_key(self._full, kv.key)
    if lease and permits ~= self._permits then
      local text = "semaphore %q has %d permits for others, and not %d"
      return nil, text:format(self._name, permits, self._permits), "conflict"
    end
    taken = taken + (lease and 1 or 0)
  end
  return math.max(0, self._permits - taken)
end

--- The name it was asked for by, without the client's prefix.
function Semaphore:name()
  return self._name
end

--- How many permits there are.
function Semaphore:permits()
  return self._permits
end

function Semaphore:__tostring()
  return string.format("etcdlock.semaphore %q (%d permits)", self._name, self._permits)
end

check.methods(Semaphore, "semaphore")

--- For client:semaphore.
-- @return semaphore | nil, message, "invalid"
function Semaphore.new(client, name, permits)
  local full, message, code = lock_options.name("client:semaphore", client._prefix, name)
  if not full then
    return nil, message, code
  end
  check.number("client:semaphore", "n", permits)
  if permits % 1 ~= 0 or not check.is_within(permits, 1, core.PERMITS_MAX) then
    local wanted = "a whole number from 1 to " .. core.PERMITS_MAX
    return check.invalid("client:semaphore", "n", permits, wanted)
  end
  return setmetatable({
    _client = client, _name = name, _full = full, _permits = math.floor(permits),
  }, Semaphore)
end

return Semaphore
