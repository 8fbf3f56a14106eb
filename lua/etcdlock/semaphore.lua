--- A semaphore: a name of which so many permits are held at a time, in the order in
-- which they were asked for.
-- @classmod semaphore
-- @alias Semaphore
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local forms = require "etcdlock.forms"
local names = require "etcdlock.names"
local quote = require("etcdlock.characters").quote

local Semaphore = {}
Semaphore.__index = Semaphore
Semaphore.__name = "etcdlock.semaphore"

local function counted(permits)
  return ("%d permit%s"):format(permits, permits == 1 and "" or "s")
end

--- Takes a permit, and waits for one: a lock like any other. The same owner gets the permit
-- that it has again, with `count` + 1; who wants two names two owners. Permits are held side
-- by side, and given back in any order: so a resource must not refuse a token for being
-- smaller than the last one.
-- @function semaphore:lock
-- @tparam[opt] lock_options opts without `linger`
-- @treturn lock
-- @fail as client:lock: `conflict` if somebody who holds a permit, or waits for one, has
--   another `n`
-- @raise for an unknown option, a wrong type

--- As `client:try_lock`, for a permit.
-- @function semaphore:try_lock
-- @tparam[opt] lock_options opts without `linger`
-- @treturn lock
-- @fail as client:try_lock: `conflict` as for `lock`
-- @raise for an unknown option, a wrong type

--- As `client:with_lock`, for a permit.
-- @function semaphore:with_lock
-- @tparam[opt] lock_options opts without `linger`; may be left out
-- @tparam body fn called with the permit
-- @treturn true
-- @treturn any what `fn` has returned
-- @fail as client:with_lock: `conflict` as for `lock`
-- @raise an error in `fn`, the same object; for an unknown option, a wrong type

--- As `client:lock_async`, for a permit.
-- @function semaphore:lock_async
-- @tparam[opt] lock_options opts without `linger`
-- @treturn pending
-- @fail as client:lock_async
-- @raise for an unknown option, a wrong type
forms.add(Semaphore, "semaphore", "lock", function(self, ...)
  return self._client, { mode = "permit", name = self._name, permits = self._permits }, ...
end)

--- Counts the permits that are free at this moment: others may take them before you do.
-- @treturn count
-- @fail a request's: `conflict` if others have another `n`
function Semaphore:available()
  local client, txn = self._client, self._client._core:txn()
  local stem = core.key_stem(self._full, "permit")
  txn:list(stem, stem:sub(1, -2) .. "0")
  local ok, held, results = client:_ask(txn)
  if not ok then
    return nil, held, results
  end
  local taken = 0
  for _, kv in ipairs(results[1]) do
    local lease, _, permits = core.parse_key(self._full, kv.key, kv.lease)
    if lease and permits ~= self._permits then
      local text = 'semaphore %s has %s for others, and not %d'
      return nil, text:format(quote(self._full), counted(permits), self._permits), "conflict"
    end
    taken = taken + (lease and 1 or 0)
  end
  return math.max(0, self._permits - taken)
end

--- Tells the name it was asked for by, without the client's prefix.
-- @treturn string
-- @fail never
function Semaphore:name()
  return self._name
end

--- Tells how many permits there are.
-- @treturn count
-- @fail never
function Semaphore:permits()
  return self._permits
end

function Semaphore:__tostring()
  return string.format("etcdlock.semaphore %s (%s)", quote(self._name), counted(self._permits))
end

check.methods(Semaphore, "semaphore")

-- For client:semaphore.
-- @return semaphore | nil, message, "invalid"
function Semaphore.new(client, name, permits)
  local full, message, code = names.full("client:semaphore", client._prefix, name)
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
