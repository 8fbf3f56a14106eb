--- A client: one connection, one lease and one I/O thread for any number of
-- locks.
-- @classmod client
-- @alias Client
local Election = require "etcdlock.election"
local Events = require "etcdlock.events"
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
local of_answer = require "etcdlock.wait.of_answer"
local queue = require "etcdlock.queue"
local queues = require "etcdlock.queues"
local status = require "etcdlock.status"

local Client = {}
Client.__index = Client
Client.__name = "etcdlock.client"

-- How long a call may ask etcd.
local ASK_WAIT = 5
-- A key to ask for when only the answer counts.
local PING = "/ping"
local Answered = of_answer "arm_txn"
-- What close gives to releasing and revoking.
local CLOSE_WAIT = 0.5

-- ---- for acquire.lua, lock.lua, loss.lua, guarded.lua, queue.lua and observer.lua ----

-- Waits in the way of what runs here; see wait/init.lua for `wait`, which is of this kind.
function Client:_await(its_kind, wait)
  wait.wakeups, wait.events = self._wakeups, self._events
  wait.losses = its_kind.hears_losses and self._losses
  return await(setmetatable(wait, its_kind))
end

-- Why etcd isn't even to be asked: message, code. Where a wait for it would stop others
-- (`is_pressed`), or connect was told to fail fast, one finds out for all that it is out
-- of reach.
function Client:_outage(is_pressed)
  local message = (is_pressed or self._fail_fast) and self._scout:outage()
  if message then
    return message, "unavailable"
  end
end

-- Why one can't wait here for etcd, or needn't: message, code.
function Client:_refusal()
  local message, code = host.refusal(self._wakeups.chosen)
  if not message then
    message, code = self:_outage()
  end
  return message, code
end

-- Until when a call that begins now may ask etcd.
function Client._ask_ends()
  return core.now() + ASK_WAIT
end

-- Sends a transaction and waits for its answer until `ends` (nil: as long as a call may ask):
-- true, held, results, revision | false, message, code, whether it is certain that nothing
-- was written.
function Client:_ask(txn, ends)
  local message, code = self:_refusal()
  if message then
    return false, message, code, true
  end
  local ok
  ok, message, code = txn:start(ends and ends - core.now() or ASK_WAIT)
  if not ok then
    return false, message, code, true
  end
  return self:_await(Answered, { asked = txn })
end

-- ---- acquiring ----

-- What is asked for where a name is all that is said.
local function in_mode(mode)
  return function(self, name, ...)
    return self, { mode = mode, name = name }, ...
  end
end

--- Takes the lock `name`, in the order in which it was asked for, and waits for its turn.
-- The same owner gets the lock that it has again, with `count` + 1 and no request.
-- @function client:lock
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn lock
-- @fail timeout, locked, deadlock, lost, or a request's: `locked` with a `timeout` of 0,
--   `deadlock` at once for a wait that could never end, `lost` if our entry in the queue was
--   deleted while we waited
-- @raise for an unknown option, a wrong type

--- Takes the lock `name` if it is free at this moment. If it isn't, nothing is written, unless
-- so much comes and goes below its name that only a place in the queue can tell.
-- @function client:try_lock
-- @tparam string name
-- @tparam[opt] lock_options opts without `timeout`, which doesn't count
-- @treturn lock
-- @fail locked, deadlock, lost, or a request's: `locked` only if etcd or this client knows that
--   another owner has it, `unavailable` if no answer has come in 2 s, `deadlock` for a wait that
--   could never end, as of a reader who asks to write, `lost` if our entry in the queue was
--   deleted meanwhile
-- @raise for an unknown option, a wrong type

--- Runs `fn` under the lock, and releases it however `fn` ends. It never runs `fn` without
-- the lock. If `fn` has run, but the lock was lost before it was done (`lost`), `fn` let go of
-- it itself (`not_held`), or it can't be released (`denied`, `closed`, …), the answer is nil,
-- message, code, **true**, results of `fn`: the `true` tells that the work is done, and not to
-- be done again.
-- @function client:with_lock
-- @tparam string name
-- @tparam[opt] lock_options opts may be left out
-- @tparam body fn called with the lock
-- @treturn true
-- @treturn any what `fn` has returned
-- @fail as client:lock, not_held: followed by true and the results if `fn` has run
-- @raise an error in `fn`, the same object; for an unknown option, a wrong type

--- Asks for the lock and waits for nothing: for an event loop of your own. Who asks again
-- before he has it waits for himself: where callbacks ask, name an `owner` for each.
-- @function client:lock_async
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn pending
-- @fail deadlock, or a request's: if nothing could be asked
-- @raise for an unknown option, a wrong type
forms.add(Client, "client", "lock", in_mode "lock")

--- Takes the lock `name` as a reader: as `client:lock`, but beside other readers. A reader
-- waits for the writers that asked before him.
-- @function client:read_lock
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn lock
-- @fail as client:lock
-- @raise for an unknown option, a wrong type

--- As `client:try_lock`, for a reader.
-- @function client:try_read_lock
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn lock
-- @fail as client:try_lock
-- @raise for an unknown option, a wrong type

--- As `client:with_lock`, for a reader.
-- @function client:with_read_lock
-- @tparam string name
-- @tparam[opt] lock_options opts may be left out
-- @tparam body fn called with the lock
-- @treturn true
-- @treturn any what `fn` has returned
-- @fail as client:with_lock
-- @raise an error in `fn`, the same object; for an unknown option, a wrong type

--- As `client:lock_async`, for a reader.
-- @function client:read_lock_async
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn pending
-- @fail as client:lock_async
-- @raise for an unknown option, a wrong type
forms.add(Client, "client", "read_lock", in_mode "read")

--- Takes the lock `name` as a writer: as `client:lock`. A writer waits for everybody who
-- asked before him; a plain lock of the name is a writer, too. Its owner may read as well
-- (the same hold, `count` + 1).
-- @function client:write_lock
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn lock
-- @fail as client:lock
-- @raise for an unknown option, a wrong type

--- As `client:try_lock`, for a writer.
-- @function client:try_write_lock
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn lock
-- @fail as client:try_lock
-- @raise for an unknown option, a wrong type

--- As `client:with_lock`, for a writer.
-- @function client:with_write_lock
-- @tparam string name
-- @tparam[opt] lock_options opts may be left out
-- @tparam body fn called with the lock
-- @treturn true
-- @treturn any what `fn` has returned
-- @fail as client:with_lock
-- @raise an error in `fn`, the same object; for an unknown option, a wrong type

--- As `client:lock_async`, for a writer.
-- @function client:write_lock_async
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn pending
-- @fail as client:lock_async
-- @raise for an unknown option, a wrong type
forms.add(Client, "client", "write_lock", in_mode "write")

--- Takes several names at once: one lock, with one token, taken in one transaction, released
-- together, and lost with any of its keys; a guarded write happens only while all are there.
-- It waits in the queue of each name, where it has asked, among plain locks, readers and
-- writers of that name. Its owner has each of the names by it (the same hold, `count` + 1).
-- @function client:multi_lock
-- @tparam {string,...} names 1 to 60
-- @tparam[opt] lock_options opts without `linger`
-- @treturn lock
-- @fail as client:lock: `deadlock`, at once, for who has some of the names already, but not
--   all by one hold
-- @raise for an unknown option, a wrong type

--- As `client:try_lock`, for several names. If they aren't all free it leaves nothing behind.
-- @function client:try_multi_lock
-- @tparam {string,...} names 1 to 60
-- @tparam[opt] lock_options opts without `linger`
-- @treturn lock
-- @fail as client:try_lock
-- @raise for an unknown option, a wrong type

--- As `client:with_lock`, for several names.
-- @function client:with_multi_lock
-- @tparam {string,...} names 1 to 60
-- @tparam[opt] lock_options opts without `linger`; may be left out
-- @tparam body fn called with the lock
-- @treturn true
-- @treturn any what `fn` has returned
-- @fail as client:with_lock
-- @raise an error in `fn`, the same object; for an unknown option, a wrong type

--- As `client:lock_async`, for several names.
-- @function client:multi_lock_async
-- @tparam {string,...} names 1 to 60
-- @tparam[opt] lock_options opts without `linger`
-- @treturn pending
-- @fail as client:lock_async
-- @raise for an unknown option, a wrong type
forms.add(Client, "client", "multi_lock", function(self, names, ...)
  return self, { mode = "multi", names = names }, ...
end)

--- Makes the semaphore `name`, of which at most `n` permits are held at a time, in the order
-- in which they were asked for. Sends no request. A lock of the same name is independent of it.
-- Programs may name different `n`, see [Change n](#change-n): then at most the largest `n` is
-- held, and not always in order.
-- @tparam string name
-- @tparam count n how many permits there are, 1 to 1000
-- @treturn semaphore
-- @fail invalid
-- @raise for a wrong type
function Client:semaphore(name, n)
  return Semaphore.new(self, name, n)
end

--- Makes the election `name`: who is first in the queue of that name leads, and says
-- something, an address perhaps, which others read or observe. Asks nobody.
-- @tparam string name
-- @treturn election
-- @fail invalid
-- @raise for a wrong type
function Client:election(name)
  return Election.new(self, name)
end

--- Makes a function that calls `fn` with its own arguments under the lock, and answers what
-- `with_lock` answers.
-- @tparam string name
-- @tparam[opt] lock_options opts may be left out
-- @tparam function fn
-- @treturn function which answers and raises as `client:with_lock` does
-- @fail never
-- @raise for a wrong type
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

-- Both are described in queue.lua.
Client.queue = queue.queue
Client.queues = queues.queues
Client.break_lock = queue.break_lock
Client.status = status.status

--- What `client:stats` tells.
-- @table stats
-- @tfield count enqueues requests that ask for a place in a queue
-- @tfield count tries requests of tries
-- @tfield count looks requests that look who is there
-- @tfield count deletes requests that release
-- @tfield count probes requests that ask whether the lease lives
-- @tfield count keepalives requests that keep it alive
-- @tfield count grants requests for a lease
-- @tfield count revokes requests that end one
-- @tfield count audits requests that look for keys that came late
-- @tfield count watches watches that were begun
-- @tfield count calls requests of `put`, `get`, `queue` and their like
-- @tfield count batched how many of them were asked in the round trip of another one, because
--   they came while others were out
-- @tfield count rpcs the round trips that makes
-- @tfield count acquired locks that were taken
-- @tfield count lost locks that were lost
-- @tfield count leaked locks that were dropped while they were held
-- @tfield count failed_attempts requests to etcd that have failed, each try
-- @tfield count held locks that are held now
-- @tfield count waiting calls that wait now
local REQUESTS = {
  "enqueues", "tries", "looks", "deletes", "probes",
  "keepalives", "grants", "revokes", "audits", "watches", "calls",
}

--- Counts since `connect`. Taking and releasing a lock that nobody else wants costs two
-- requests.
-- @treturn stats
-- @fail never
function Client:stats()
  local stats = self._core:stats()
  stats.rpcs = 0
  for _, field in ipairs(REQUESTS) do
    stats.rpcs = stats.rpcs + stats[field]
  end
  stats.rpcs = stats.rpcs - stats.batched
  return stats
end

--- The options of `client:metrics`.
-- @table metrics_options
-- @tfield[opt] labels labels which all of it gets: they tell this client from others

--- Tells what `client:stats` counts, and for how long locks were waited for and held (see
-- `metrics` of connect), as a page in Prometheus' text format (text/plain; version=0.0.4).
-- Local.
-- @function client:metrics
-- @tparam[opt] metrics_options opts
-- @treturn string
-- @fail forked
-- @raise for an unknown option, a wrong type, a label that Prometheus doesn't take
function Client:metrics(opts)
  opts = check.types("client:metrics", opts, { labels = "table" }, {})
  local Metrics = require "etcdlock.metrics"
  local labels = Metrics.check_labels("client:metrics", opts.labels)
  local usable, message, code = self._core:usable()
  if not usable and code == "forked" then
    return nil, message, code
  end
  self._events:deliver()
  return Metrics.format_page(self._metrics, self:stats(), REQUESTS, self._core:alive(), labels)
end

--- Tells whether the client has a session that is known to live. It has none before the
-- first use, and between the end of one and the next time that it is used. Local.
-- @treturn[1] true
-- @treturn[1] seconds for which it lives
-- @treturn[2] false
-- @treturn[2] code `closed`, `forked` or `unavailable` (no session yet, or no news of it)
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

--- Reads once through etcd's majority. That this user may not read there is an answer, too:
-- etcd looks at rights once the majority has spoken.
-- @treturn seconds that it took
-- @fail a request's
function Client:ping()
  local txn, from = self._core:txn(), core.now()
  txn:get(self._prefix .. PING)
  local ok, message, code = self:_ask(txn)
  if not ok and code ~= "denied" then
    return nil, message, code
  end
  return core.now() - from
end

--- Tells the session's lease.
-- @treturn string|nil hex; nil: there is none
-- @fail never
function Client:lease()
  return self._core:lease()
end

--- Releases all locks, revokes the lease and ends the I/O thread; waits half a second or a
-- little more for etcd. In nginx the request waits, not its worker; in a phase that can't
-- wait, `close` returns at once and the rest is done in the background. A client that is
-- dropped without `close` is closed when Lua collects it, in the background, too. A lease
-- whose hold was lost less than its `lock_delay` ago is not revoked; it ends by itself. If a
-- member does not answer, the I/O thread and a socket end later, when the attempt to connect
-- to the member ends: after at most 2 s, with TLS 5 s. Afterwards the client and its locks
-- answer `closed`. May be repeated.
-- @treturn true
-- @fail never
function Client:close()
  self._wakeups:close(CLOSE_WAIT)
  self._events:close()
  return true
end

function Client:__close()
  self:close()
end

function Client:__tostring()
  local alive, code = self:alive()
  local state = code
  if alive then
    state = "lease " .. self:lease()
  elseif code == "unavailable" and not self._core:outage() then
    state = self:stats().rpcs == 0 and "not connected yet" or "no session"
  end
  return string.format("etcdlock.client %s (%s)", self._endpoints, state)
end

check.methods(Client, "client")

-- Wraps a core client. For init.lua only.
function Client.new(core_client, options)
  local wakeups = Wakeups.new(core_client, options.loop, options.socket_dir)
  local metrics = options.metrics and require("etcdlock.metrics").new(options.metrics) or nil
  return setmetatable({
    _core = core_client,
    _wakeups = wakeups,
    _losses = Losses.new(wakeups),
    _metrics = metrics,
    _events = Events.new(core_client, options, metrics),
    _scout = Scout.new(core_client, options.prefix .. PING),
    _fail_fast = options.fail_fast,
    _holds = Holds.new(options.endpoints),
    _endpoints = table.concat(options.endpoints, ","),
    _timeout = options.timeout,
    _prefix = options.prefix,
  }, Client)
end

return Client
