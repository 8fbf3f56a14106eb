--- A client: one connection, one lease and one I/O thread for any number of locks.
-- @classmod client
-- @alias Client
local Election = require "etcdlock.election"
local Events = require "etcdlock.events"
local HeldLocks = require "etcdlock.held_locks"
local LossListeners = require "etcdlock.loss_listeners"
local Metrics = require "etcdlock.metrics"
local Semaphore = require "etcdlock.semaphore"
local acquire = require "etcdlock.acquire"
local await = require "etcdlock.wait"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local loops = require "etcdlock.wait.loop"
local queue = require "etcdlock.queue"
local runtime = require "etcdlock.wait.runtime"
local waits = require "etcdlock.wait.waits"
-- All modules are loaded at once, also those of event loops (`new`): without a free descriptor, or
-- after a change of package.path, a later `require` would raise an error.

local Client = {}
Client.__index = Client
Client.__name = "etcdlock.client"

-- Seconds for which a call waits for an answer of etcd.
local REQUEST_TIMEOUT = 5
-- Seconds for which `status` waits for the answer of each member.
local STATUS_TIMEOUT = 2
-- Seconds for which `close` waits until the keys are deleted and the lease is revoked.
local CLOSE_TIMEOUT = 0.5
-- A waiter reads its queue again after max(TTL, 10 s). A little later the client knows the holder,
-- and logs the wait: seconds.
local LONG_WAIT, LONG_WAIT_SPARE = 10, 0.5
-- A key that is read when only the answer counts.
local PING_KEY = "/ping"

-- ---- for other modules ----

-- Returns `message` with a note where it names the default endpoint in nginx: the administrator may
-- have set ETCDCTL_ENDPOINTS, but nginx hides its environment from Lua.
local function explain_default(message)
  return (message:gsub("etcd 127%.0%.0%.1:2379", "%0 (default; nginx hides ETCDCTL_ENDPOINTS)", 1))
end

-- Returns the results of a wait; false, message, code of a failed one with an explained message.
local function explain_failure(ok, message, code, ...)
  if ok == false and code == "unavailable" then
    message = explain_default(message)
  end
  return ok, message, code, ...
end

-- Waits as the running program or event loop requires. `wait` is of the kind `kind`; its fields and
-- the results: see wait/waits.lua.
function Client:_await(kind, wait)
  wait.wakeups, wait.events = self._wakeups, self._events.is_on and self._events
  wait.losses = kind.hears_losses and self._loss_listeners
  if self._has_hidden_default then
    return explain_failure(await(setmetatable(wait, kind)))
  end
  return await(setmetatable(wait, kind))
end

-- Returns message, "unavailable" if etcd is known to be unreachable and the call is to fail at
-- once: with the option fail_fast, or if a wait would stop an nginx worker or an event loop
-- (`stops_loop`). Returns nil otherwise.
function Client:_find_outage(stops_loop)
  local message = (stops_loop or self._fail_fast) and self._core:outage(self._prefix .. PING_KEY)
  if message then
    return self._has_hidden_default and explain_default(message) or message, "unavailable"
  end
end

-- Records that a call has had no answer: until etcd answers, _find_outage(true) returns a message.
function Client:_suspect_outage()
  self._core:suspect_outage(self._prefix .. PING_KEY)
end

-- Returns message, code if a wait for etcd is impossible here, or pointless; nil if not.
function Client:_find_refusal()
  local message, code = runtime.refusal(self._wakeups.chosen)
  if not message then
    message, code = self:_find_outage()
  end
  return message, code
end

-- Returns the time until which a call that starts now waits for etcd.
function Client._get_deadline()
  return core.now() + REQUEST_TIMEOUT
end

-- Sends a transaction and waits for its answer until `deadline`, by default REQUEST_TIMEOUT from
-- now. Returns true, whether the guard held, results, revision; or false, message, code, and true
-- if it is certain that nothing was written.
function Client:_run_txn(txn, deadline)
  local message, code = self:_find_refusal()
  if message then
    return false, message, code, true
  end
  local ok
  ok, message, code = txn:start(deadline and deadline - core.now() or REQUEST_TIMEOUT)
  if not ok then
    return false, message, code, true
  end
  return self:_await(waits.Answered, { object = txn })
end

-- ---- taking locks ----

-- Returns the function that acquire.add takes, for calls with a name and a fixed mode.
local function with_mode(mode)
  return function(self, name, ...)
    return self, { mode = mode, name = name }, ...
  end
end

--- Takes a lock, and waits until it is free. Waiters get the lock in the order in which they queued
-- in etcd. If the owner holds the lock already, the call returns the same hold with `count` + 1,
-- and sends no request.
-- @function client:lock
-- @tparam string name 1 to 512 bytes with the prefix, without NUL
-- @tparam[opt] lock_options opts
-- @treturn lock
-- @fail timeout, locked, deadlock, lost, or a request's: `timeout` if the lock was not free within
--   the timeout, `locked` with a timeout of 0, `deadlock` at once if the wait would never end,
--   `lost` if the key of the waiter was deleted
-- @raise for an unknown option, a wrong type

--- Takes a lock if it is free, and does not wait for other owners. If the lock is taken, the call
-- writes nothing to etcd. One exception: if keys below the name come and go too fast to tell by
-- reads whether the lock is held, the call creates a key in the queue, and deletes it.
-- @function client:try_lock
-- @tparam string name
-- @tparam[opt] lock_options opts `timeout` is ignored
-- @treturn lock
-- @fail locked, deadlock, lost, or a request's: `locked` only if etcd or this client knows that
--   another owner holds the lock, `unavailable` if etcd has not answered within 2 s, `deadlock` if
--   a wait would never end, as for a reader that asks to write, `lost` if the key of the call was
--   deleted meanwhile
-- @raise for an unknown option, a wrong type

--- Takes a lock, calls `fn` with it, and releases it when `fn` ends, also by an error. The call
-- never runs `fn` without the lock.
--
-- As with `pcall`, each return of `fn` counts as success: if `fn` ends with
-- `return nil, "no stock"`, the call returns `true, nil, "no stock"`. So check the results of `fn`
-- as well: `local ok, sold, why = client:with_lock("stock", sell)`, then `if ok and not sold`.
--
-- `os.exit` within `fn` ends the process at once. `os.exit(code, true)` closes the Lua state before
-- (Lua 5.2 and later, LuaJIT) and so releases the lock. After any other `os.exit` the lock stays
-- taken for the TTL.
--
-- If `fn` has run, but the lock was lost (`lost`), `fn` unlocked it (`not_held`), or it cannot be
-- released (`denied`, `closed`, …), the call returns nil, message, code, **true**, results of `fn`.
-- The `true` tells the caller that `fn` has run, so that it does not repeat the work. If only
-- etcd's confirmation of the release is missing, the call returns true.
-- @function client:with_lock
-- @tparam string name
-- @tparam[opt] lock_options opts may be left out
-- @tparam body fn called with the lock
-- @treturn true
-- @treturn any results of `fn`
-- @fail as client:lock, not_held: followed by true and the results if `fn` has run
-- @raise an error of `fn`, the same object; for an unknown option, a wrong type

--- Starts to take a lock and returns at once, for an event loop of your own. The owner is the
-- coroutine that calls, so callbacks that run in one coroutine are one owner. If an owner asks
-- again before it has the lock, the second call waits for the first: give each callback an `owner`.
-- @function client:lock_async
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn pending
-- @fail deadlock, or a request's: if the call could not start
-- @raise for an unknown option, a wrong type
acquire.add(Client, "client", "lock", with_mode "lock")

--- Takes a read lock: like `client:lock`, but several readers may hold it at a time. A reader waits
-- for the writers that queued before it.
-- @function client:read_lock
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn lock
-- @fail as client:lock
-- @raise for an unknown option, a wrong type

--- As `client:try_lock`, for a read lock.
-- @function client:try_read_lock
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn lock
-- @fail as client:try_lock
-- @raise for an unknown option, a wrong type

--- As `client:with_lock`, for a read lock.
-- @function client:with_read_lock
-- @tparam string name
-- @tparam[opt] lock_options opts may be left out
-- @tparam body fn called with the lock
-- @treturn true
-- @treturn any results of `fn`
-- @fail as client:with_lock
-- @raise an error of `fn`, the same object; for an unknown option, a wrong type

--- As `client:lock_async`, for a read lock.
-- @function client:read_lock_async
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn pending
-- @fail as client:lock_async
-- @raise for an unknown option, a wrong type
acquire.add(Client, "client", "read_lock", with_mode "read")

--- Takes a write lock: like `client:lock`. A writer waits for all readers and writers that queued
-- before it. A lock of `client:lock` is a writer of the same name, too. If the owner holds the
-- write lock and asks for a read lock, it gets the same hold, with `count` + 1.
-- @function client:write_lock
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn lock
-- @fail as client:lock
-- @raise for an unknown option, a wrong type

--- As `client:try_lock`, for a write lock.
-- @function client:try_write_lock
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn lock
-- @fail as client:try_lock
-- @raise for an unknown option, a wrong type

--- As `client:with_lock`, for a write lock.
-- @function client:with_write_lock
-- @tparam string name
-- @tparam[opt] lock_options opts may be left out
-- @tparam body fn called with the lock
-- @treturn true
-- @treturn any results of `fn`
-- @fail as client:with_lock
-- @raise an error of `fn`, the same object; for an unknown option, a wrong type

--- As `client:lock_async`, for a write lock.
-- @function client:write_lock_async
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn pending
-- @fail as client:lock_async
-- @raise for an unknown option, a wrong type
acquire.add(Client, "client", "write_lock", with_mode "write")

--- Takes the locks of several names in one transaction: one hold with one token. In the queue of
-- each name, the call waits for all older locks, readers and writers. Its keys have the same age in
-- all queues, so two such calls never wait for each other. `unlock` releases all names. The hold is
-- lost if any of its keys is lost, and a guarded write is applied only while all keys exist. If the
-- owner asks for one of the names, it gets the same hold, with `count` + 1.
-- @function client:multi_lock
-- @tparam {string,...} names 1 to 60
-- @tparam[opt] lock_options opts without `linger`
-- @treturn lock
-- @fail as client:lock: `deadlock`, at once, if the owner holds some of the names already, but not
--   all by one hold
-- @raise for an unknown option, a wrong type

--- As `client:try_lock`, for several names. If one of them is taken, the call takes none.
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
-- @treturn any results of `fn`
-- @fail as client:with_lock
-- @raise an error of `fn`, the same object; for an unknown option, a wrong type

--- As `client:lock_async`, for several names.
-- @function client:multi_lock_async
-- @tparam {string,...} names 1 to 60
-- @tparam[opt] lock_options opts without `linger`
-- @treturn pending
-- @fail as client:lock_async
-- @raise for an unknown option, a wrong type
acquire.add(Client, "client", "multi_lock", function(self, names, ...)
  return self, { mode = "multi", names = names }, ...
end)

--- Creates a semaphore: up to `n` permits of the name are held at a time, granted in the order in
-- which they queued. Sends no request. A lock of the same name is independent of it. If programs
-- use different `n` (see [Changing n](#changing-n)), up to the largest `n` are held, and not always
-- in order.
-- @tparam string name
-- @tparam count n number of permits, 1 to 1000
-- @treturn semaphore
-- @fail invalid
-- @raise for a wrong type
function Client:semaphore(name, n)
  return Semaphore.new(self, name, n)
end

--- Creates an election: the first candidate in the queue of the name leads and publishes a value,
-- such as its address. Any client can read or observe the leader. Sends no request.
-- @tparam string name
-- @treturn election
-- @fail invalid
-- @raise for a wrong type
function Client:election(name)
  return Election.new(self, name)
end

--- Returns a function that calls `fn` with its own arguments while the client holds the lock.
-- @tparam string name
-- @tparam[opt] lock_options opts may be left out
-- @tparam function fn
-- @treturn function which returns and raises as `client:with_lock` does
-- @fail never
-- @raise for a wrong type
function Client:wrap(name, opts, fn)
  check.string("client:wrap", "name", name)
  opts, fn = check.options_and_function("client:wrap", opts, fn)
  return function(...)
    local args, n = { ... }, select("#", ...)
    return acquire.with(self, "client:wrap", { mode = "lock", name = name }, opts, function()
      return fn((table.unpack or unpack)(args, 1, n)) -- luacheck: ignore unpack
    end)
  end
end

-- ---- queues ----

-- queue.lua describes them.
Client.queue = queue.queue
Client.queues = queue.queues
Client.break_lock = queue.break_lock

-- ---- the state of client and cluster ----

--- The state of a member that `client:status` returns. If the member has not answered within 2 s,
-- only `endpoint`, `transport`, `message` and `code` are set. To find the cause may take one more
-- second.
-- @table member
-- @tfield string endpoint `host:port`, or `unix:` and the path
-- @tfield string transport `tls`; or in plain text: `local` if the connection does not leave this
--   machine, `open` if others on the way can read and change it
-- @tfield[opt] string version version of etcd
-- @tfield[opt] string id member ID in hex
-- @tfield[opt] string leader_id member ID of the leader; missing if the member knows no leader
-- @tfield[opt] boolean is_leader true if the member leads the cluster
-- @tfield[opt] boolean is_learner true if the member has no vote
-- @tfield[opt] count db_size bytes of its database file
-- @tfield[opt] count db_in_use bytes of the file that are in use
-- @tfield[opt] {string,...} problems texts of etcd: alarms, `no leader`
-- @tfield[opt] seconds seconds time until the answer came, including the connection
-- @tfield[opt] string message why the member did not answer
-- @tfield[opt] code code why the member did not answer

--- Asks each member of the option `endpoints` for its state. The members answer for themselves: the
-- call does not tell whether a majority answers; `client:ping` does.
-- @treturn {member,...} in the order of `endpoints`
-- @fail closed, forked, context, premature
function Client:status()
  local message, code = runtime.refusal(self._wakeups.chosen)
  if message then
    return nil, message, code
  end
  local request
  request, message, code = self._core:status(STATUS_TIMEOUT)
  if not request then
    return nil, message, code
  end
  local members
  members, message, code = self:_await(waits.AllAnswered, { object = request })
  if not members then
    return nil, message, code
  end
  for _, member in ipairs(members) do
    member.is_leader = member.id and member.id == member.leader_id
  end
  return members
end

--- The counters that `client:stats` returns, since `connect`.
-- @table stats
-- @tfield count enqueues requests that create a key in a queue
-- @tfield count tries requests of tries
-- @tfield count looks requests that read a queue
-- @tfield count deletes requests that delete a key
-- @tfield count probes requests that check that the lease is alive
-- @tfield count keepalives keepalives of leases
-- @tfield count grants requests that create a lease
-- @tfield count revokes requests that revoke a lease
-- @tfield count audits requests that list the keys of a lease, to find keys that were created late
-- @tfield count watches watches that were created
-- @tfield count calls requests of `put`, `get`, `queue` and the like
-- @tfield count batched requests that left in the round trip of another one, because they were made
--   while others were in flight
-- @tfield count rpcs round trips to etcd: the sum of the requests above, without `batched`
-- @tfield count acquired locks that were acquired
-- @tfield count lost locks that were lost
-- @tfield count leaked locks that leaked: garbage-collected while they were held
-- @tfield count failed_attempts requests that failed; each retry counts
-- @tfield count held locks that are held now
-- @tfield count waiting calls that wait for a lock now
local REQUESTS = {
  "enqueues", "tries", "looks", "deletes", "probes",
  "keepalives", "grants", "revokes", "audits", "watches", "calls",
}

--- Returns counters since `connect`. To acquire and release a lock that nobody else wants costs two
-- requests. Sends no request.
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
-- @tfield[opt] labels labels that are added to all values, to tell this client from others
local METRICS_OPTIONS = { labels = { type = "table" } }

--- Returns the counters of `client:stats`, and the wait and hold times that connect's option
-- `metrics` asks for, in Prometheus' text format (text/plain; version=0.0.4). Sends no request.
-- @tparam[opt] metrics_options opts
-- @treturn string
-- @fail forked
-- @raise for an unknown option, a wrong type, a label that Prometheus does not allow
function Client:metrics(opts)
  opts = check.options("client:metrics", opts, METRICS_OPTIONS, {})
  local labels = Metrics.check_labels("client:metrics", opts.labels)
  local usable, message, code = self._core:usable()
  if not usable and code == "forked" then
    return nil, message, code
  end
  self._events:deliver()
  return Metrics.format_page(self._metrics, self:stats(), REQUESTS, self._core:alive(), labels)
end

--- Tells whether the client has a session that is known to be alive. It has none before the first
-- use, and after a session has ended until the next use. Sends no request.
-- @treturn[1] true
-- @treturn[1] seconds for which the session is alive at least
-- @treturn[2] false
-- @treturn[2] code `closed`, `forked`, or `unavailable`: there is no session, or no proof that it
--   is alive
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

--- Reads a key through a majority of etcd's members. The call succeeds also if the user has no
-- permission for the key, because etcd checks permissions after the majority has answered.
-- @treturn seconds that the call took
-- @fail a request's
function Client:ping()
  local txn, started_at = self._core:txn(), core.now()
  txn:get(self._prefix .. PING_KEY)
  local ok, message, code = self:_run_txn(txn)
  if not ok and code ~= "denied" then
    return nil, message, code
  end
  return core.now() - started_at
end

--- Returns the lease ID of the session.
-- @treturn string|nil in hex; nil: there is no session
-- @fail never
function Client:lease()
  return self._core:lease()
end

--- Releases all locks, revokes the lease and stops the I/O thread. Waits about 0.5 s for etcd at
-- most. All later calls of the client and its locks fail with `closed`. May be repeated.
--
-- In nginx only the nginx request waits, not the worker. In a phase that does not allow a wait,
-- `close` returns at once, and the client closes in the background. A client that is dropped
-- without `close` is closed in the background when Lua collects it.
--
-- If a hold was lost less than its `lock_delay` ago, its lease is not revoked, and ends by itself.
-- If a member does not answer, the I/O thread and one socket end later, when the attempt to connect
-- ends: after 2 s at most, with TLS 5 s.
-- @treturn true
-- @fail never
function Client:close()
  self._wakeups:close(CLOSE_TIMEOUT)
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

-- Creates the client of a core client, for init.lua. `settings` are those of connect_options.read.
function Client.new(core_client, settings)
  loops.load()
  local wakeups = waits.new(core_client, settings.loop, settings.socket_dir)
  local metrics = settings.metrics and Metrics.new(settings.metrics) or nil
  return setmetatable({
    _core = core_client,
    _wakeups = wakeups,
    _loss_listeners = LossListeners.new(wakeups),
    _held_locks = HeldLocks.new(settings.endpoints),
    _metrics = metrics,
    _events = Events.new(core_client, settings, metrics),
    _fail_fast = settings.fail_fast,
    -- True if the default endpoint is used in nginx, and variables were to be read.
    _has_hidden_default = runtime.hides_environment and settings.env ~= false
      and not settings.names.endpoints,
    _endpoints = table.concat(settings.endpoints, ","),
    -- Default of the option `timeout`: seconds; nil or math.huge: no limit.
    _timeout = settings.timeout or runtime.DEFAULT_TIMEOUT,
    -- Seconds after which the event `still_waiting` reports a wait.
    _long_wait = math.max(settings.ttl, LONG_WAIT) + LONG_WAIT_SPARE,
    _prefix = settings.prefix,
  }, Client)
end

return Client
