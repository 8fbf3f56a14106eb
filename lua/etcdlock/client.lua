--- A client: one connection, one lease and one I/O thread for any number of locks.
-- @classmod client
-- @alias Client
local Election = require "etcdlock.election"
local Events = require "etcdlock.events"
local HeldLocks = require "etcdlock.held_locks"
local Lock = require "etcdlock.lock"
local LossListeners = require "etcdlock.loss_listeners"
local Metrics = require "etcdlock.metrics"
local Semaphore = require "etcdlock.semaphore"
local acquire = require "etcdlock.acquire"
local await = require "etcdlock.wait"
local check = require "etcdlock.check"
local connect_options = require "etcdlock.connect_options"
local core = require "etcdlock.core"
local escape = require("etcdlock.text").escape
local loops = require "etcdlock.wait.loop"
local once = require "etcdlock.once"
local queue = require "etcdlock.queue"
local quote_keys = require("etcdlock.text").quote_keys
local runtime = require "etcdlock.wait.runtime"
local waits = require "etcdlock.wait.waits"
-- This module loads all modules that a client uses, and Client.new those for the event loops that
-- the program has loaded. A later `require` could raise an error, because no descriptor is free or
-- package.path has changed.

local Client = {}
Client.__index = Client
Client.__name = "etcdlock.client"

-- Seconds for which a call that reads or writes keys waits for etcd's answer.
local REQUEST_TIMEOUT = 5
-- Seconds for which `status` waits for the answer of each member.
local STATUS_TIMEOUT = 2
-- Seconds for which `close` waits until the keys are deleted and the lease is revoked.
local CLOSE_TIMEOUT = 0.5
-- Seconds. A waiter reads its queue after 0.25 s, and again max(TTL, LONG_WAIT) later. The client
-- logs a wait of max(TTL, LONG_WAIT) + LONG_WAIT_SPARE: it then knows the holder from that read.
local LONG_WAIT, LONG_WAIT_SPARE = 10, 0.5
-- Key below the client's prefix for reads that only test whether etcd answers.
local PING_KEY = "/ping"

-- ---- for other modules ----

-- Returns `message` with the note `default_note` after the default endpoint; unchanged if the note
-- is nil or the message does not name this endpoint.
local function add_note(message, default_note)
  return default_note and (message:gsub("etcd 127%.0%.0%.1:2379", "%0" .. default_note, 1))
    or message
end

-- Returns the note about the default endpoint: how to choose another one. Returns nil if the
-- program or the environment has chosen the endpoints.
local function make_default_note(settings)
  if settings.names.endpoints then
    return nil
  elseif settings.env == false then
    return " (default; set endpoints)"
  end
  return runtime.hides_environment and " (default; nginx hides ETCDCTL_ENDPOINTS)"
    or " (default; set endpoints or ETCDCTL_ENDPOINTS)"
end

-- Waits for an event: see wait/init.lua.
Client._await = await

-- Returns the results of a wait. If they are a failure with `unavailable`, adds the default note.
function Client:_explain(ok, message, code, ...)
  if ok == false and code == "unavailable" then
    message = add_note(message, self._default_note)
  end
  return ok, message, code, ...
end

-- Returns message, "unavailable" if etcd is known to be unreachable; a probe then finds out when
-- etcd answers again. Otherwise returns nil.
function Client:_find_outage()
  local message = self._core:outage(self._prefix .. PING_KEY)
  if message then
    return add_note(message, self._default_note), "unavailable"
  end
end

-- Records that a call got no answer from etcd. From now on _find_outage returns a message,
-- until etcd answers a read in the background.
function Client:_suspect_outage()
  self._core:suspect_outage(self._prefix .. PING_KEY)
end

-- Returns the event loop in which a call waits for etcd; nil: it blocks. The second and third
-- result are message, code if the wait is impossible here, or if the client has the option
-- fail_fast and etcd is known to be unreachable; else nil.
function Client:_find_loop()
  local loop, message, code = runtime.loop(self._wakeups.chosen)
  if not message and self._fail_fast then
    message, code = self:_find_outage()
  end
  return loop, message, code
end

-- Returns the time (core.now) until which a call that starts now waits for etcd.
function Client._get_deadline()
  return core.now() + REQUEST_TIMEOUT
end

-- Sends a transaction and waits for its answer until the time `deadline`; nil: for REQUEST_TIMEOUT.
-- If etcd has run it, returns true, whether the guard held, the results, and the store revision.
-- Otherwise returns false, message, code; a fourth result of true means that certainly nothing was
-- written.
function Client:_run_txn(txn, deadline)
  local loop, message, code = self:_find_loop()
  if message then
    return false, message, code, true
  end
  local ok
  ok, message, code = txn:start(deadline and deadline - core.now() or REQUEST_TIMEOUT)
  if not ok then
    return false, message, code, true
  end
  return self:_await(waits.Answered, loop, txn)
end

-- ---- taking locks ----

-- Returns the function that acquire.add takes as `prepare`, for calls that always have the mode
-- `mode`.
local function with_mode(mode)
  return function(self, name, ...)
    return Lock.new(self, mode, name), ...
  end
end

--- Takes a lock, and waits until it is free. Waiters get the lock in the order in which they queued
-- in etcd, except for a [handoff](#handoff). If the client's lease ends during the wait, for
-- example because this process stood still for longer than the TTL, the call waits again, at the
-- end of the queue. If the owner holds the lock already, the call returns the same lock object with
-- `count` + 1, and sends no request; the owner unlocks once for each `lock`.
-- @function client:lock
-- @tparam string name 1 to 512 bytes with the prefix, without NUL. Full names that end in `/read`,
--   `/write`, `/permit`, `/read/order` or `/write/order` are refused: append a text of your own to
--   a name that comes from data
-- @tparam[opt] lock_options opts
-- @treturn lock
-- @fail timeout, locked, deadlock, lost, or a request error: `timeout` if the lock was not free
--   within the timeout; `locked` if the timeout is 0 and the lock is taken; `deadlock`, at once, if
--   the wait would never end; `lost` if the key of the waiter was deleted: call again

--- Takes a lock if it is free, and does not wait for other owners. If the lock is taken, the call
-- creates no key in etcd. One exception: if keys below the name change so fast that reads cannot
-- tell whether the lock is taken, the call creates a key in the queue, and then deletes this key.
-- @function client:try_lock
-- @tparam string name
-- @tparam[opt] lock_options opts `timeout` is ignored
-- @treturn lock
-- @fail locked, deadlock, lost, or a request error: `locked` only if etcd or this client knows that
--   the lock is taken; `unavailable` if etcd has not answered within 2 s; `deadlock` if the owner
--   would wait for its own hold, for example if the owner of a read hold asks for the write lock;
--   `lost` if the key that the call created was deleted during the call. Where no call can wait
--   (code `context`), the 2 s are [0.1 s or 0.5 s](nginx.md#where-a-call-can-wait)

--- Takes a lock, calls `fn` with the lock, and releases the lock when `fn` returns or raises an
-- error. `fn` never begins without the lock. The call also releases the lock if a debug hook raises
-- an error in any instruction ([exceptions](production.md#fork-ctrl-c-exit) in Lua 5.1).
--
-- As `pcall` does, the call returns true and the results of `fn`, whatever these are: if `fn` ends
-- with `return nil, "no stock"`, the call returns `true, nil, "no stock"`. So check the results of
-- `fn` as well: `local ok, sold, why = client:with_lock("stock", sell)`, then `if ok and not sold`.
--
-- `os.exit` within `fn` ends the process at once, mostly
-- [without a release](production.md#fork-ctrl-c-exit).
--
-- If the lock was lost while `fn` ran (`lost`), if `fn` unlocked it (`not_held`), or if it cannot
-- be released (`denied`, `closed`, …), the call returns nil, message, code, `true`, and then the
-- results of `fn`. This fourth result tells that `fn` has run: do not repeat its work blindly. If
-- only etcd's confirmation of the release is missing after 2 s, the call succeeds.
-- @function client:with_lock
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @tparam body fn called with the lock
-- @treturn true
-- @treturn any results of `fn`
-- @fail as client:lock, not_held
-- @raise an error of `fn`, the same object

--- Starts to take a lock and returns at once, for an event loop of your own. The owner is the
-- coroutine that calls, so all callbacks that run in one coroutine are the same owner. If an owner
-- asks twice for a lock before it has got the lock, the second call waits until the hold of the
-- first one ends. So give each callback an `owner` of its own.
-- @function client:lock_async
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn pending
-- @fail deadlock, or a request error: if the call could not start
acquire.add(Client, "client", "lock", with_mode "lock")

--- Takes a read lock: like `client:lock`, but several readers may hold it at a time. A reader waits
-- for the writers whose keys in etcd are older than its own.
-- @function client:read_lock
-- @forms a read lock
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn lock
-- @fail as client:lock
acquire.add(Client, "client", "read_lock", with_mode "read")

--- Takes a write lock: like `client:lock`. A writer waits for all readers and writers whose keys in
-- etcd are older than its own. A lock of `client:lock` counts as a writer of its name, too. If the
-- owner of a write hold asks for a read lock, it gets the same hold, with `count` + 1. If the owner
-- of a read hold asks for a write lock, the call fails with `deadlock`.
-- @function client:write_lock
-- @forms a write lock
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @treturn lock
-- @fail as client:lock
acquire.add(Client, "client", "write_lock", with_mode "write")

--- Takes the locks of several names in one transaction: one hold with one token. In the queue of
-- each name, the call waits for all older locks, readers and writers. The keys of one call have the
-- same create_revision in all queues, so two such calls never wait for each other. `unlock`
-- releases all names. The hold is lost if any of its keys is lost, and a guarded write is applied
-- only while all keys exist. If the owner of the hold asks for one of its names, the call returns
-- the same hold, with `count` + 1.
-- @function client:multi_lock
-- @forms several names
-- @tparam {string,...} names 1 to 60
-- @tparam[opt] lock_options opts without `linger`
-- @treturn lock
-- @fail as client:lock: `deadlock`, at once, if the owner holds some of the names already, but has
--   no hold that covers all of them

--- As `client:try_lock`, for several names. If one of them is taken, the call takes none.
-- @function client:try_multi_lock
-- @tparam {string,...} names 1 to 60
-- @tparam[opt] lock_options opts without `linger`
-- @treturn lock
-- @fail as client:try_lock
acquire.add(Client, "client", "multi_lock", with_mode "multi")

--- Creates a semaphore: up to `n` permits of the name are held at a time. Waiters get permits in
-- the order in which they queued, except for a [handoff](#handoff). Sends no request. A semaphore
-- and a lock of the same name are independent of each other. If programs use different `n` (see
-- [Changing n](#changing-n)), up to the largest `n` permits are held, and waiters do not always get
-- them in order.
-- @tparam string name
-- @tparam count n number of permits, 1 to 1000
-- @treturn semaphore
-- @fail invalid
function Client:semaphore(name, n)
  return Semaphore.new(self, name, n)
end

--- Creates an election: the first candidate in the queue of the name leads and publishes a value,
-- such as its address. Any client can read or observe the leader. Sends no request.
-- @tparam string name
-- @treturn election
-- @fail invalid
function Client:election(name)
  return Election.new(self, name)
end

--- Returns a function. A call of this function takes the lock, passes its arguments to `fn`, and
-- releases the lock when `fn` ends.
-- @tparam string name
-- @tparam[opt] lock_options opts
-- @tparam function fn
-- @treturn function which returns and raises as `client:with_lock` does
-- @fail never
function Client:wrap(name, opts, fn)
  check.string("client:wrap", "name", name)
  opts, fn = check.options_and_function("client:wrap", opts, fn)
  return function(...)
    local args, n = { ... }, select("#", ...)
    return acquire.with("client:wrap", Lock.new(self, "lock", name), opts, function()
      return fn((table.unpack or unpack)(args, 1, n)) -- luacheck: ignore unpack
    end)
  end
end

-- ---- jobs ----

-- once.lua describes these methods.
Client.once = once.once
Client.runs = once.runs

-- ---- queues ----

-- queue.lua describes these methods.
Client.queue = queue.queue
Client.queues = queue.queues
Client._read_queues = queue._read_queues
Client.break_lock = queue.break_lock

-- ---- the state of client and cluster ----

--- The state of a member that `client:status` returns. If the member has not answered within 2 s,
-- or has refused to tell its state, only `endpoint`, `transport`, `message` and `code` are set. The
-- client may then need one more second to find the cause.
-- @table member
-- @tfield string endpoint `host:port`, or `unix:` and the path
-- @tfield string transport `tls`; `local`: plain text that does not leave this machine; `open`:
--   plain text that others on the network can read and change
-- @tfield[opt] string version version of etcd
-- @tfield[opt] string id member ID in hex
-- @tfield[opt] string leader_id member ID of the leader; missing if the member knows no leader
-- @tfield[opt] boolean is_leader true if the member leads the cluster
-- @tfield[opt] boolean is_learner true if the member has no vote
-- @tfield[opt] count db_size bytes of its database file
-- @tfield[opt] count db_in_use bytes of the file that are in use
-- @tfield[opt] {string,...} problems problems that etcd reports, in etcd's words: alarms, `no
--   leader`
-- @tfield[opt] seconds seconds time until the answer came, including the time to connect
-- @tfield[opt] string message why the state is missing
-- @tfield[opt] code code why the state is missing

--- Asks each member of the option `endpoints` for its state. Each member answers for itself only.
-- To test whether a majority of the members answers, call `client:ping`.
-- @treturn {member,...} in the order of `endpoints`
-- @fail closed, forked, context, nomem
function Client:status()
  local loop, message, code = runtime.loop(self._wakeups.chosen)
  if message then
    return nil, message, code
  end
  local request
  request, message, code = self._core:status(STATUS_TIMEOUT)
  if not request then
    return nil, message, code
  end
  local members
  members, message, code = self:_await(waits.AllAnswered, loop, request)
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
-- @tfield count tries requests that try to take a lock without a wait
-- @tfield count looks requests that read a queue, or wait until etcd has elected a leader
-- @tfield count deletes requests that delete a key
-- @tfield count lease_checks requests that check that the lease is alive
-- @tfield count keepalives keepalives of leases
-- @tfield count grants requests that create a lease
-- @tfield count revokes requests that revoke a lease
-- @tfield count audits requests that list the keys of a lease, to find keys that were created late
-- @tfield count watches watches that were created
-- @tfield count calls requests of `put`, `get`, `queue` and the like
-- @tfield count batched requests that left in the round trip of another request
-- @tfield count rpcs round trips to etcd: the sum of the requests above, minus `batched`
-- @tfield count authentications logins that have ended, also those that failed
-- @tfield count authentication_ms total milliseconds of these logins
-- @tfield count acquired locks that were acquired
-- @tfield count lost locks that were lost
-- @tfield count leaked locks that leaked: garbage-collected while they were held
-- @tfield count failed_attempts requests that failed, except `revokes`, `watches` and those of
--   `client:status`; each retry counts
-- @tfield count held locks that are held now
-- @tfield count waiting calls that wait for a lock now, or for the answer to a try
local REQUESTS = {
  "enqueues", "tries", "looks", "deletes", "lease_checks",
  "keepalives", "grants", "revokes", "audits", "watches", "calls",
}

--- Returns counters since `connect`. Sends no request.
-- @treturn stats
-- @fail closed: only in a finalizer that runs after the client was collected
function Client:stats()
  local stats, message, code = self._core:stats()
  if not stats then
    return nil, message, code
  end
  stats.rpcs = 0
  for _, field in ipairs(REQUESTS) do
    stats.rpcs = stats.rpcs + stats[field]
  end
  stats.rpcs = stats.rpcs - stats.batched
  return stats
end

--- The options of `client:metrics`.
-- @table metrics_options
-- @tfield[opt] labels labels labels for all values of the page, for example to tell several clients
--   apart
local METRICS_OPTIONS = { labels = { type = "table" } }

--- Returns a page with the client's [metrics](observability.md#metrics) in Prometheus' text format.
-- Sends no request.
-- @tparam[opt] metrics_options opts
-- @treturn string
-- @fail forked, closed: `closed` as for `client:stats`
-- @raise for a label that Prometheus does not allow, and for `lock`, `le`, `code` and `kind`
function Client:metrics(opts)
  opts = check.options("client:metrics", opts, METRICS_OPTIONS, {})
  local labels = Metrics.check_labels("client:metrics", opts.labels)
  local usable, message, code = self._core:usable()
  if not usable and code == "forked" then
    return nil, message, code
  end
  self._events:deliver()
  local stats
  stats, message, code = self:stats()
  if not stats then
    return nil, message, code
  end
  if self._metrics then
    self._metrics:measure(self._held_locks)
  end
  return Metrics.format_page {
    metrics = self._metrics, stats = stats, kinds = REQUESTS, remaining = self._core:alive(),
    ttl = self._ttl, version = self._version, labels = labels,
  }
end

--- Tells whether the client has a session that is known to be alive. The first call that takes a
-- lock creates a session. After the end of a session, the next such call, or a call that still
-- waits for a lock, creates another one. Sends no request.
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
-- @fail a request error
function Client:ping()
  local txn, started_at = self._core:txn(), core.now()
  txn:get(self._prefix .. PING_KEY)
  local ok, message, code = self:_run_txn(txn)
  -- A proxy that answers in place of etcd may deny the request, too.
  if not ok and txn:read_failure() ~= "no permission" then
    return nil, message, code
  end
  return core.now() - started_at
end

--- Reads a key in etcd, without a lock. A majority of etcd's members takes part, so the value is at
-- least as new as the call. It may change at once: a value on which a write depends is read under
-- the lock, with `lock:get`. If etcd does not answer, the call fails after 5 s; with the option
-- `fail_fast`, as soon as etcd is known to be unreachable.
-- @tparam string key key in etcd; the client's prefix is not added
-- @tparam[opt=false] any default as in `lock:get`
-- @treturn string|any value, or `default`
-- @fail a request error
function Client:get(key, default)
  check.string("client:get", "key", key)
  local txn = self._core:txn()
  txn:get(key)
  local ok, message, results = self:_run_txn(txn)
  if not ok then
    return nil, string.format("get%s: %s", quote_keys { key }, message), results -- the code
  end
  local found = results[1][1]
  if found then
    return found.value
  end
  return default or false
end

--- Makes the client use `password` at its next login. Call it before you change the password of its
-- user in etcd, or within `ttl` / 2 after that: otherwise the client may lose its holds, because
-- etcd ends the user's tokens when the password changes. Sends no request.
-- @tparam string password
-- @treturn true
-- @fail invalid, nomem, closed, forked: `invalid` if the client has no user, or `password` is empty
--   or contains NUL
function Client:set_password(password)
  local where = "client:set_password"
  check.string(where, "password", password)
  local ok, message, code = connect_options.check_password(where, self._has_user, password)
  if not ok then
    return nil, message, code
  end
  return self._core:set_password(password)
end

--- Returns the lease ID of the session.
-- @treturn string|nil in hex; nil: there is no session
-- @fail never
function Client:lease()
  return self._core:lease()
end

--- Releases all locks, revokes the lease (not during a [lock delay](#lock-delay)) and stops the I/O
-- thread. Waits at most about 0.5 s for etcd. Later calls of the client that need etcd, and of the
-- locks that it held, fail with `closed`. `close` may be repeated.
--
-- In nginx only the nginx request waits, not the worker. In a phase that does not allow a wait,
-- `close` returns at once, and the client closes in the background. If a program drops a client
-- without `close`, the client closes in the background when Lua collects it.
--
-- If a member does not answer, the I/O thread remains until all attempts to connect have ended: for
-- at most 11 s. Each attempt keeps one socket.
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
  return string.format("etcdlock.client %s (%s)", escape(self._endpoints), state)
end

check.methods(Client, "client")

-- Creates the client that uses the core's client `core_client`; init.lua calls this. `settings` is
-- the result of connect_options.read, `version` the version of etcdlock.
function Client.new(core_client, settings, version)
  loops.load()
  local wakeups = waits.new(core_client, settings.loop, settings.socket_dir)
  local metrics = settings.metrics and Metrics.new(settings.metrics, settings.prefix) or nil
  return setmetatable({
    _core = core_client,
    _wakeups = wakeups,
    _loss_listeners = LossListeners.new(wakeups),
    _held_locks = HeldLocks.new(settings.endpoints),
    _metrics = metrics,
    _events = Events.new(core_client, settings, metrics),
    _fail_fast = settings.fail_fast,
    _default_note = make_default_note(settings),
    _endpoints = table.concat(settings.endpoints, ","),
    -- Default of the option `timeout`: seconds; math.huge: no limit; nil: there is no default.
    _timeout = settings.timeout or runtime.DEFAULT_TIMEOUT,
    _ttl = settings.ttl, -- seconds
    _version = version,
    -- Seconds after which the event `still_waiting` reports a wait.
    _long_wait = math.max(settings.ttl, LONG_WAIT) + LONG_WAIT_SPARE,
    _prefix = settings.prefix,
    _has_user = settings.user ~= nil,
    _lock_delay = settings.lock_delay, -- seconds
    _plain_label = nil, -- with _plain_since: see write_plain in label.lua
  }, Client)
end

return Client
