--- A semaphore: a name of which up to `n` permits are held at a time.
-- @classmod semaphore
-- @alias Semaphore
local Lock = require "etcdlock.lock"
local acquire = require "etcdlock.acquire"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local names = require "etcdlock.names"
local quote = require("etcdlock.text").quote

local Semaphore = {}
Semaphore.__index = Semaphore
Semaphore.__name = "etcdlock.semaphore"

--- Takes a permit, and waits until one is free. A permit has the methods of a lock, but is not
-- reentrant: each call takes another permit, even if the owner has one already.
--
-- If this program blocks while it waits, and holds all `n` permits without `max_hold`, the call
-- fails with `deadlock` at once. In an event loop and in nginx the call waits, because another
-- coroutine may unlock a permit. A coroutine that holds all `n` permits itself then waits until its
-- `timeout` ends, or for ever without one. One exception: if earlier phases of the same nginx
-- request hold all permits without `max_hold`, the call fails with `deadlock`.
-- @function semaphore:lock
-- @forms a permit
-- @tparam[opt] lock_options opts without `linger`
-- @treturn lock
-- @fail as client:lock

--- As `client:with_lock`, for a permit. A `with_lock` inside a `with_lock` of the same semaphore
-- takes a second permit.
-- @function semaphore:with_lock
-- @tparam[opt] lock_options opts without `linger`
-- @tparam body fn called with the permit
-- @treturn true
-- @treturn any results of `fn`
-- @fail as client:with_lock
-- @raise an error of `fn`, the same object
acquire.add(Semaphore, "semaphore", "lock", function(self, ...)
  local lock = Lock.new(self._client, "permit", self._name)
  lock._permits = self._permits
  return lock, ...
end)

--- Returns the number of free permits: `n` minus the number of entries that hold a permit or wait
-- for one, but at least 0. Another client may take a free permit before the caller does.
-- @treturn count
-- @fail a request error
function Semaphore:available()
  local client, txn = self._client, self._client._core:txn()
  local stem = core.key_stem(self._full_name, "permit")
  txn:list(stem, stem:sub(1, -2) .. "0")
  local ok, held, results = client:_run_txn(txn)
  if not ok then
    local message = string.format("semaphore %s: %s", quote(self._full_name), held)
    return nil, message, results -- results is the code
  end
  local taken = 0
  for _, kv in ipairs(results[1]) do
    taken = taken + (core.parse_key(self._full_name, kv.key, kv.lease) and 1 or 0)
  end
  return math.max(0, self._permits - taken)
end

--- Returns the name of the semaphore, without the client's prefix.
-- @treturn string
-- @fail never
function Semaphore:name()
  return self._name
end

--- Returns `n`, the number of permits given to `client:semaphore`.
-- @treturn count
-- @fail never
function Semaphore:permits()
  return self._permits
end

function Semaphore:__tostring()
  return string.format("etcdlock.semaphore %s (%d permit%s)", quote(self._full_name), self._permits,
    self._permits == 1 and "" or "s")
end

check.methods(Semaphore, "semaphore")

-- Creates a semaphore; client:semaphore calls this. Returns nil, message, "invalid" if the name or
-- the number of permits is not allowed.
function Semaphore.new(client, name, permits)
  local full_name, message, code = names.add_prefix("client:semaphore", client._prefix, name)
  if not full_name then
    return nil, message, code
  end
  check.number("client:semaphore", "n", permits)
  if permits % 1 ~= 0 or not check.is_within(permits, 1, core.PERMITS_MAX) then
    local wanted = "a whole number from 1 to " .. core.PERMITS_MAX
    return check.invalid("client:semaphore", "n", permits, wanted)
  end
  return setmetatable({
    _client = client, _name = name, _full_name = full_name, _permits = math.floor(permits),
  }, Semaphore)
end

return Semaphore
