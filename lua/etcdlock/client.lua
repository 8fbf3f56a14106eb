--- A client: one connection, one lease and one I/O thread for any number of
-- locks. Who owns what, and how often, is kept here.
local Hub = require "etcdlock.hub"
local acquire = require "etcdlock.acquire"
local await = require "etcdlock.await"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local guarded = require "etcdlock.guarded"
local label = require "etcdlock.label"
local loops = require "etcdlock.loops"
local options = require "etcdlock.options"

local Client = {}
Client.__index = Client
Client.__name = "etcdlock.client"

-- How long a question may take when etcd doesn't answer.
local CALL_WAIT = 5
-- What close gives to releasing and revoking.
local CLOSE_WAIT = 0.5

-- ---- for lock.lua ----

--- Forgets a lock that was released, so that its owner may take it anew.
function Client:_forget(lock)
  if self._holds[self._prefix .. lock._name] == lock then
    self._holds[self._prefix .. lock._name] = nil
  end
end

--- Calls the on_lost handlers that are due, but not those of another request.
function Client:_tell_losses()
  if next(self._watched) == nil then
    return
  end
  local watched = {}
  for lock in pairs(self._watched) do
    if not (lock._leash and lock._leash.link and loops.is_elsewhere(lock._leash)) then
      watched[#watched + 1] = lock
    end
  end
  for _, lock in ipairs(watched) do
    lock:_left() -- notices an expiry of this moment
    lock:_tell_loss()
  end
end

--- Waits in the way of the place; see await.lua for `wait`.
function Client:_await(wait)
  wait.hub = self._hub
  function wait.between()
    if not wait.is_deaf then
      self._hub.is_untold = false
      self:_tell_losses()
    end
  end
  return await(wait)
end

--- Sends a call and waits for its answer: true, held, results, revision |
-- false, message, code.
function Client:_ask(call, seconds)
  local refused, why = loops.refusal(self._hub)
  if refused then
    return false, refused, why
  end
  local ok, message, code = call:start(seconds)
  if not ok then
    return false, message, code
  end
  return self:_await {
    poll = function(slice)
      return call:wait(slice)
    end,
    arm = function(id, served)
      return call:arm(id, served)
    end,
  }
end

-- ---- acquiring ----

--- Takes the lock `name`, in the order in which it was asked for.
-- @param opts timeout (seconds; 0 tries once; nil waits as long as it takes, but
--   only 5 s if etcd has never answered this client), max_hold (seconds after
--   which the hold ends by itself), owner (who asks; default: the running
--   coroutine), value (published to queue)
-- @return lock | nil, message, code: "timeout", "locked" (timeout 0),
--   "deadlock", "lost" (our key was deleted while we waited), "unavailable",
--   "closed", "forked", "denied", "no_space", "invalid", "context" (waiting
--   here would stop nginx's worker), ...
-- The same owner gets the lock that it has again, with count + 1 and no RPC. In
-- nginx a lock that was waited for ends with its request, and an owner is known
-- in one request only, whose phases and light threads are different ones.
function Client:lock(name, opts)
  return acquire.wait(self, "client:lock", name, opts)
end

--- The same without waiting for others: writes nothing if it isn't free.
-- @return lock | nil, message, code: "locked", ...
function Client:try_lock(name, opts)
  local tried = { timeout = 0 }
  if type(opts) == "table" then
    for field, value in pairs(opts) do
      if field ~= "timeout" then
        tried[field] = value
      end
    end
  elseif opts ~= nil then
    tried = opts -- which acquire refuses
  end
  return acquire.wait(self, "client:try_lock", name, tried)
end

--- The same for a program with an event loop of its own: nothing waits here.
-- @return a pending lock (pending.lua): step, cancel, and what loops poll |
--   nil, message, code if nothing could be asked
-- An own hold is answered by the first step, with count + 1.
function Client:lock_async(name, opts)
  return acquire.start(self, "client:lock_async", name, opts)
end

--- What with_lock answers after the function has returned `results`.
local function conclude(results, unlocked, message, code)
  -- Held until unlock began, but etcd hasn't confirmed the release: what ran
  -- under the lock ran under it.
  if unlocked or code == "unavailable" then
    return true, (table.unpack or unpack)(results, 1, results.n) -- luacheck: ignore unpack
  end
  return nil, message, code
end

local function run_locked(self, where, name, opts, fn)
  local lock, message, code = acquire.wait(self, where, name, opts)
  if not lock then
    return nil, message, code
  end
  local unlocked, why, why_code
  local results = guarded.run(function()
    unlocked, why, why_code = lock:unlock()
  end, fn, lock)
  return conclude(results, unlocked, why, why_code)
end

--- Runs fn(lock) while the lock is held, and releases it however fn ends. An
-- error in fn is raised again, the same object.
-- @param opts as for lock; may be left out
-- @return true, fn's results | nil, message, code: as for lock, and then fn
--   was not run; or "lost" if fn ran and the lock was lost before it was done
function Client:with_lock(name, opts, fn)
  if fn == nil then
    opts, fn = nil, opts
  end
  check.callable("client:with_lock", "fn", fn)
  return run_locked(self, "client:with_lock", name, opts, fn)
end

--- A function that runs fn with its own arguments under the lock, and returns
-- what with_lock returns.
function Client:wrap(name, opts, fn)
  if fn == nil then
    opts, fn = nil, opts
  end
  check.string("client:wrap", "name", name)
  check.callable("client:wrap", "fn", fn)
  return function(...)
    local args, n = { ... }, select("#", ...)
    return run_locked(self, "client:wrap", name, opts, function()
      return fn((table.unpack or unpack)(args, 1, n)) -- luacheck: ignore unpack
    end)
  end
end

-- ---- looking ----

local function list_queue(self, where, name)
  local full, message, code = options.name(where, self._prefix, name)
  if not full then
    return nil, message, code
  end
  local call = self._core:call()
  call:list(full .. "/", full .. "0")
  local ok, held, results = self:_ask(call, CALL_WAIT)
  if not ok then
    return nil, held, results
  end
  local places = {}
  for _, kv in ipairs(results[1]) do
    local lease, mode = core.parse_key(full, kv.key)
    if lease then
      local said = label.read(kv.value)
      local before = places[#places]
      places[#places + 1] = {
        held = before == nil or (before.held and before.mode == "read" and mode == "read"),
        token = kv.create_revision,
        lease = lease,
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
function Client:queue(name)
  return list_queue(self, "client:queue", name)
end

--- Takes the lock away from its holder, but only from the one with `token`.
-- @return true | nil, message, code: "not_held" if that token doesn't hold it
function Client:break_lock(name, token)
  check.number("client:break_lock", "token", token)
  local places, message, code = list_queue(self, "client:break_lock", name)
  if not places then
    return nil, message, code
  end
  local call, found = self._core:call(), nil
  for _, place in ipairs(places) do
    found = found or place.held and place.token == token and place
  end
  local nobody = string.format("lock %q is not held with token %.0f", name, token)
  if not found then
    return nil, nobody, "not_held"
  end
  call:guard(found.key, token)
  call:delete(found.key)
  local ok, held, results = self:_ask(call, CALL_WAIT)
  if not ok then
    return nil, held, results
  elseif not held then
    return nil, nobody, "not_held"
  end
  return true
end

local REQUESTS = {
  "enqueues", "tries", "looks", "deletes", "probes",
  "keepalives", "grants", "revokes", "watches", "calls",
}

--- Counters since connect: the requests sent by kind and their sum (rpcs),
-- acquired, lost, failed_attempts; and how many locks are held and waited for
-- now.
function Client:stats()
  local stats = self._core:stats()
  stats.rpcs = 0
  for _, field in ipairs(REQUESTS) do
    stats.rpcs = stats.rpcs + stats[field]
  end
  return stats
end

--- Does the client have a lease that is known to live? Local.
-- @return true, seconds | false, code: "closed", "forked", "unavailable" (no
--   lease yet, or no news of it)
function Client:alive()
  local usable, _, code = self._core:usable()
  if not usable then
    return false, code
  end
  local left = self._core:alive()
  if left > 0 then
    return true, left
  end
  return false, "unavailable"
end

--- One linearizable read through the cluster. That this user may not read
-- there is an answer too: etcd looks at rights once the majority has spoken.
-- @return seconds that it took | nil, message, code
function Client:ping()
  local call, from = self._core:call(), core.now()
  call:get(self._prefix .. "/ping")
  local ok, message, code = self:_ask(call, CALL_WAIT)
  if not ok and code ~= "denied" then
    return nil, message, code
  end
  return core.now() - from
end

--- The client's lease in hex, nil while it has none.
function Client:lease()
  return self._core:lease()
end

--- Releases every lock, revokes the lease and ends the I/O thread, in half a
-- second or a little more. The client and its locks answer "closed" from then
-- on. Idempotent.
function Client:close()
  self._hub:close(CLOSE_WAIT)
  return true
end

function Client:__close()
  self:close()
end

function Client:__tostring()
  local alive, code = self:alive()
  local state = alive and "lease " .. self:lease() or code
  return string.format("etcdlock.client %s (%s)", self._endpoints, state)
end

check.methods(Client, "client")

--- Wraps a core client. For init.lua only.
function Client.new(core_client, settings)
  local watched = setmetatable({}, { __mode = "k" })
  return setmetatable({
    _core = core_client,
    _hub = Hub.new(core_client, settings.loop, watched),
    _endpoints = table.concat(settings.endpoints, ","),
    _timeout = settings.timeout,
    _collect_at = 0,
    _prefix = settings.prefix,
    _holds = setmetatable({}, { __mode = "v" }), -- name -> lock: reentrancy
    _waiting = setmetatable({}, { __mode = "v" }), -- name -> who waits for it
    _watched = watched, -- locks with on_lost
  }, Client)
end

return Client
