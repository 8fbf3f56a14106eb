--- A client: one connection, one lease and one I/O thread for any number of
-- locks.
local Holds = require "etcdlock.holds"
local Losses = require "etcdlock.losses"
local Scout = require "etcdlock.scout"
local Wakeups = require "etcdlock.wait.wakeups"
local acquire = require "etcdlock.acquire"
local await = require "etcdlock.wait"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local finally = require "etcdlock.finally"
local host = require "etcdlock.wait.host"
local queue = require "etcdlock.queue"

local Client = {}
Client.__index = Client
Client.__name = "etcdlock.client"

-- How long a question may take when etcd doesn't answer.
local ASK_WAIT = 5
-- A key to ask for when only the answer counts.
local PING = "/ping"
-- What close gives to releasing and revoking.
local CLOSE_WAIT = 0.5

-- ---- for acquire.lua, lock.lua, loss.lua, guarded.lua and queue.lua ----

--- Waits in the way of what runs here; see wait/init.lua for `wait`.
function Client:_await(wait)
  wait.wakeups = self._wakeups
  return await(wait)
end

--- Why etcd isn't even to be asked: message, code. Where a wait for it would stop others
-- (`is_pressed`), or connect was told to fail fast, one finds out for all that it is out
-- of reach.
function Client:_outage(is_pressed)
  local message = (is_pressed or self._fail_fast) and self._scout:outage()
  if message then
    return message, "unavailable"
  end
end

--- Sends a transaction and waits for its answer: true, held, results, revision |
-- false, message, code.
function Client:_ask(txn)
  local message, code = host.refusal(self._wakeups.chosen)
  if not message then
    message, code = self:_outage()
  end
  if message then
    return false, message, code
  end
  local ok
  ok, message, code = txn:start(ASK_WAIT)
  if not ok then
    return false, message, code
  end
  return self:_await {
    poll = function(slice)
      return txn:wait(slice)
    end,
    arm = function(number)
      return self._core:arm_txn(txn, number)
    end,
    losses = self._losses,
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
--   here would stop nginx's worker), "premature" (in a timer of a worker that
--   exits), ...
-- The same owner gets the lock that it has again, with count + 1 and no RPC. In
-- nginx a lock that was waited for ends with its request, and an owner is known
-- in one request only, whose phases and light threads are different ones; a later
-- phase that asks for what an earlier one holds is told "deadlock".
function Client:lock(name, opts)
  return acquire.wait(self, "client:lock", name, opts)
end

--- The same without waiting for others. It writes nothing if it isn't free, unless so
-- much comes and goes below its name that only a place in the queue can tell.
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

--- What with_lock answers after the function has returned `results`. That it has
-- run is told in any case: whoever tries again would do its work twice.
local function conclude(results, unlocked, message, code)
  local list = table.unpack or unpack -- luacheck: ignore unpack
  -- Held until unlock began, but etcd hasn't confirmed the release: what ran
  -- under the lock ran under it.
  if unlocked or code == "unavailable" then
    return true, list(results, 1, results.n)
  end
  return nil, message, code, true, list(results, 1, results.n)
end

local function pack(...)
  return { n = select("#", ...), ... }
end

local function run_locked(self, where, name, opts, fn)
  local lock, message, code = acquire.wait(self, where, name, opts)
  if not lock then
    return nil, message, code
  end
  -- On the stack for as long as fn runs, whatever that is.
  local function within()
    local results = pack(fn(lock))
    return results
  end
  local is_outermost = lock:count() == 1
  if is_outermost then
    lock._run = host.run(within)
  end
  local unlocked, why, why_code
  local results = finally.run(function()
    if is_outermost then
      lock._run = nil
    end
    unlocked, why, why_code = lock:unlock()
  end, within)
  return conclude(results[1], unlocked, why, why_code)
end

--- Runs fn(lock) while the lock is held, and releases it however fn ends. An
-- error in fn is raised again, the same object.
-- @param opts as for lock; may be left out
-- @return true, fn's results | nil, message, code: as for lock, and then fn was not
--   run | nil, message, code, true, fn's results: it ran, but the lock was lost
--   before it was done ("lost"), or can't be released ("denied", "closed", ...)
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

Client.queue = queue.queue
Client.break_lock = queue.break_lock

local REQUESTS = {
  "enqueues", "tries", "looks", "deletes", "probes",
  "keepalives", "grants", "revokes", "audits", "watches", "calls",
}

--- Counters since connect: the requests sent by kind, how many of them shared
-- another's round trip (shared), and the round trips that makes (rpcs); acquired,
-- lost, collected (by Lua, while they were held), failed_attempts; and how many
-- locks are held and waited for now.
function Client:stats()
  local stats = self._core:stats()
  stats.rpcs = 0
  for _, field in ipairs(REQUESTS) do
    stats.rpcs = stats.rpcs + stats[field]
  end
  stats.rpcs = stats.rpcs - stats.shared
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
  local txn, from = self._core:txn(), core.now()
  txn:get(self._prefix .. PING)
  local ok, message, code = self:_ask(txn)
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
  self._wakeups:close(CLOSE_WAIT)
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
function Client.new(core_client, options)
  local wakeups = Wakeups.new(core_client, options.loop, options.socket_dir)
  return setmetatable({
    _core = core_client,
    _wakeups = wakeups,
    _losses = Losses.new(wakeups),
    _scout = Scout.new(core_client, options.prefix .. PING),
    _fail_fast = options.fail_fast,
    _holds = Holds.new(options.endpoints),
    _endpoints = table.concat(options.endpoints, ","),
    _timeout = options.timeout,
    _prefix = options.prefix,
    _log = options.log,
  }, Client)
end

return Client
