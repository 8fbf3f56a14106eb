--- A client: one connection, one lease and one I/O thread for any number of
-- locks.
local Election = require "etcdlock.election"
local Holds = require "etcdlock.holds"
local Losses = require "etcdlock.losses"
local Scout = require "etcdlock.scout"
local Semaphore = require "etcdlock.semaphore"
local Wakeups = require "etcdlock.wait.wakeups"
local await = require "etcdlock.wait"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local forms = require "etcdlock.forms"
local host = require "etcdlock.wait.host"
local queue = require "etcdlock.queue"
local queues = require "etcdlock.queues"
local status = require "etcdlock.status"

local Client = {}
Client.__index = Client
Client.__name = "etcdlock.client"

-- How long a question may take when etcd doesn't answer.
local ASK_WAIT = 5
-- A key to ask for when only the answer counts.
local PING = "/ping"
-- What close gives to releasing and revoking.
local CLOSE_WAIT = 0.5

-- ---- for acquire.lua, lock.lua, loss.lua, guarded.lua, queue.lua and observer.lua ----

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

--- Why one can't wait here for etcd, or needn't: message, code.
function Client:_refusal()
  local message, code = host.refusal(self._wakeups.chosen)
  if not message then
    message, code = self:_outage()
  end
  return message, code
end

--- Sends a transaction and waits for its answer, `seconds` at most (nil: the usual time):
-- true, held, results, revision | false, message, code, whether it is certain that nothing
-- was written.
function Client:_ask(txn, seconds)
  local message, code = self:_refusal()
  if message then
    return false, message, code, true
  end
  local ok
  ok, message, code = txn:start(math.min(seconds or ASK_WAIT, ASK_WAIT))
  if not ok then
    return false, message, code, true
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

--- What is asked for where a name is all that is said.
local function in_mode(mode)
  return function(self, name, ...)
    return self, { mode = mode, name = name }, ...
  end
end

--- client:lock(name, opts) takes the lock `name`, in the order in which it was asked
-- for.
-- @param opts timeout (seconds; 0 tries once; nil waits as long as it takes, but
--   only 5 s if etcd has never answered this client), max_hold (seconds after
--   which the hold ends by itself), linger (seconds for which the key stays after
--   unlock, for whoever of this client asks next), owner (who asks; default: the
--   running coroutine), value (published to queue)
-- @return lock | nil, message, code: "timeout", "locked" (timeout 0),
--   "deadlock", "lost" (our key was deleted while we waited), "unavailable",
--   "closed", "forked", "denied", "no_space", "invalid", "context" (waiting
--   here would stop nginx's worker), "premature" (in a timer of a worker that
--   exits), ...
-- The same owner gets the lock that it has again, with count + 1 and no RPC. In
-- nginx a lock that was waited for ends with its request, and an owner is known
-- in one request only, whose phases and light threads are different ones; a later
-- phase that asks for what an earlier one holds is told "deadlock".
--
-- client:try_lock(name, opts) doesn't wait for others: "locked". It writes nothing if it
-- isn't free, unless so much comes and goes below its name that only a place in the
-- queue can tell.
--
-- client:with_lock(name, opts, fn) runs fn(lock) while the lock is held, and releases it
-- however fn ends; opts may be left out. An error in fn is raised again, the same
-- object.
-- @return true, fn's results | nil, message, code: as for lock, and then fn was not
--   run | nil, message, code, true, fn's results: it ran, but the lock was lost
--   before it was done ("lost"), or can't be released ("denied", "closed", ...)
--
-- client:lock_async(name, opts) is for a program with an event loop of its own: nothing
-- waits here.
-- @return a pending lock (pending.lua): step, cancel, and what loops poll |
--   nil, message, code if nothing could be asked
-- An own hold is answered by the first step, with count + 1.
forms.add(Client, "client", "lock", in_mode "lock")

--- The same for many readers or one writer: read_lock, try_read_lock, with_read_lock,
-- read_lock_async; write_lock, try_write_lock, with_write_lock, write_lock_async. A
-- reader waits for older writers, a writer for all that is older, and a plain lock of
-- the name is a writer. A writer's owner may read as well (the same hold, count + 1); a
-- reader's owner who asks to write is told "deadlock", at once.
forms.add(Client, "client", "read_lock", in_mode "read")
forms.add(Client, "client", "write_lock", in_mode "write")

--- The same for several names at once, a list of up to 60: multi_lock, try_multi_lock,
-- with_multi_lock, multi_lock_async. It is one lock, with one token: taken together, in one
-- transaction, so that no two wait for each other; released together, lost together. Its
-- owner has each of the names by it (the same hold, count + 1); one who has some of them,
-- but not all by one hold, is told "deadlock". No linger.
forms.add(Client, "client", "multi_lock", function(self, names, ...)
  return self, { mode = "multi", names = names }, ...
end)

--- The semaphore `name`, of which `n` permits (1 to 1000) are held at a time; all who use
-- it have to agree on n. Asks nobody. See semaphore.lua.
-- @return semaphore | nil, message, "invalid"
function Client:semaphore(name, n)
  return Semaphore.new(self, name, n)
end

--- The election `name`. Asks nobody. See election.lua.
-- @return election | nil, message, "invalid"
function Client:election(name)
  return Election.new(self, name)
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
    return forms.with(self, "client:wrap", { mode = "lock", name = name }, opts, function()
      return fn((table.unpack or unpack)(args, 1, n)) -- luacheck: ignore unpack
    end)
  end
end

-- ---- looking ----

Client.queue = queue.queue
Client.queues = queues.queues
Client.break_lock = queue.break_lock
Client.status = status.status

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
