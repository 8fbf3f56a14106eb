--- Distributed locks stored in etcd: fair, fenced and reentrant. If a holder crashes, etcd releases
-- its lock when the lease of its client ends. A holder can ask at any time whether it still holds
-- the lock.
--
-- A call that fails at run time returns nil, message, code. Misuse (a wrong type, an unknown
-- option) raises an error. Times are seconds; fractions are allowed.
-- @module etcdlock
local Client = require "etcdlock.client"
local Metrics = require "etcdlock.metrics"
local check = require "etcdlock.check"
local connect_options = require "etcdlock.connect_options"
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local runtime = require "etcdlock.wait.runtime"

local M = { _VERSION = "0.2.1" }

-- ---- many clients ----

-- Number of live clients at which the event `many_clients` is reported. A process with this many
-- clients probably creates one for each request or job.
local MANY_CLIENTS = 8

-- Set of the clients of this Lua state, with weak keys. nil after `many_clients` was reported,
-- because the event is reported only once.
local clients = setmetatable({}, { __mode = "k" })

local function count_live_clients()
  local count = 0
  for client in pairs(clients) do
    count = count + (client._core:usable() and 1 or 0)
  end
  return count
end

-- Adds the new `client` to `clients`. If MANY_CLIENTS clients are live now, reports that, once.
local function check_many_clients(client)
  if not clients then
    return
  end
  clients[client] = true
  local count = count_live_clients()
  if count >= MANY_CLIENTS then
    clients = nil
    client._events:report_many_clients(count)
  end
end

-- ---- connect ----

-- Raises if the function `name` was called with a colon, which makes this module the first
-- argument, `first`. The message shows the right call, `usage`.
local function refuse_colon(first, name, usage)
  if first == M then
    check.raise(string.format("%s: call it with a dot, %s, not with a colon", name, usage))
  end
end

--- Creates a client of one etcd cluster. Sends no request: the client connects on first use.
--
-- Connect once per process, when a module is loaded, and share the client, because each client has
-- an I/O thread, a connection to etcd and a lease. The eighth live client of a Lua state reports
-- the event [`many_clients`](observability.md#the-log).
-- @tparam[opt] connect_options opts
-- @treturn client
-- @fail invalid, nomem, forked, context: `invalid` if the value of an option or variable is not
--   allowed; `nomem` if memory, threads or descriptors do not suffice; `forked` in a process that
--   was forked after its parent had connected; `context` in nginx's `init_by_lua`
function M.connect(opts)
  refuse_colon(opts, "etcdlock.connect", "etcdlock.connect{…}")
  local settings, message, code = connect_options.read(opts)
  if not settings then
    return nil, message, code
  end
  message, code = runtime.too_early()
  if message then
    return nil, message, code
  end
  local core_client
  core_client, message, code = core.connect(settings)
  if not core_client and code == "invalid" then
    message = connect_options.name_source(settings, message)
  end
  if not core_client then
    return nil, message, code
  end
  runtime.connected(core_client)
  local client = Client.new(core_client, settings, M._VERSION)
  check_many_clients(client)
  return client
end

-- Returns a function that returns the client of connect(opts). The first call of that function
-- creates the client, and later calls return the same one, until it is closed; the next call then
-- creates another client. If connect fails, as in a forked child, the call returns nil, message,
-- code. resty.etcdlock and the default client use this.
function M._connect_on_first_use(opts)
  local client
  return function()
    if client and client._core:usable() then
      return client
    end
    local message, code
    client, message, code = M.connect(opts)
    return client, message, code
  end
end

-- Returns the default client of this Lua state. If connect fails, returns nil, message, code.
M._default_client = M._connect_on_first_use()

--- Runs a function while the default client holds a lock. All calls of a Lua state share the
-- default client, which the first call creates with the defaults of `connect`.
-- @tparam string name name of the lock
-- @tparam[opt] lock_options opts
-- @tparam body fn called with the lock
-- @treturn true
-- @treturn any results of `fn`
-- @fail as client:with_lock, etcdlock.connect
-- @raise an error of `fn`, the same object
function M.with_lock(name, opts, fn)
  refuse_colon(name, "etcdlock.with_lock", "etcdlock.with_lock(…)")
  check.string("etcdlock.with_lock", "name", name)
  local client, message, code = M._default_client()
  if not client then
    return nil, message, code
  end
  return client:with_lock(name, opts, fn)
end

--- Joins several results of `client:metrics` into one page. Values with the same name and labels
-- are added up, with these exceptions: the largest age counts, the smallest
-- `etcdlock_leader_known`, and the smallest time of a session (not the 0 of a client without one).
-- `etcdlock_build_info` stays 1.
-- @tparam {string,...} texts
-- @treturn string
-- @fail never
function M.join_metrics(texts)
  return Metrics.join(texts)
end

--- Returns the stack traceback of the last error that left a function run by a `with_lock` call.
-- etcdlock records this traceback before Lua 5.4, and in coroutines, because the stack no longer
-- exists when the caller catches the error. From Lua 5.4 on, outside coroutines, the stack still
-- exists, so nothing is recorded.
-- @function traceback
-- @treturn string|nil nil if no traceback was recorded
-- @fail never
M.traceback = coroutines.get_traceback

--- The third result of a call that fails. Programs test the code; the second result is a message
-- for people. A call that sends a request to etcd may fail with `unavailable`, `unauthenticated`,
-- `denied`, `no_space`, `invalid`, `conflict`, `protocol`, `nomem`, `closed`, `forked`, `context`
-- and `premature`. This reference calls them request errors.
-- @table code
-- @field timeout the timeout passed before the lock was free, or before the event for which the
--   call waits
-- @field locked a try found that the lock is taken: it is held, or another owner queues for it
-- @field deadlock the wait would never end, because an owner in this program holds the lock or
--   waits for it
-- @field not_held the hold was released before; from `break_lock`: no entry with the given token
--   holds the lock
-- @field lost the hold, or the key of the waiter, was lost
-- @field unread the last read of the key under this hold failed, so it is not known what a write
--   would replace: read the key again
-- @field cancelled `pending:cancel()` has cancelled the wait
-- @field closed the client, or the observer, was closed
-- @field unavailable etcd is unreachable, or did not answer in time; for a write also: etcd may
--   have applied it
-- @field unauthenticated etcd requires a user, a client certificate, or a valid password or token
-- @field denied the user lacks the permission, or a proxy answers with the HTTP status 403
-- @field no_space etcd's database is full, and the lock was not taken
-- @field invalid a value is not allowed, or etcd rejects the request
-- @field conflict another cluster answers than at first, or the cluster was wiped or restored from
--   a backup: create a new client
-- @field context this place in nginx or in an event loop does not allow the call, or nginx's worker
--   cannot use the socket that wakes its requests
-- @field premature in nginx: the worker is exiting, and its timers can no longer take a lock, nor
--   wait for a lock, a loss or a leader
-- @field forked this process is a forked child, and the client belongs to its parent
-- @field protocol the server does not speak the API of etcd 3, or omits parts of an answer
-- @field nomem out of memory, threads or descriptors

--- The reason for which a hold was lost, as `lock:on_lost` and `lock:wait_lost` report it.
-- @table reason
-- @field expired the lease was not proven alive in time: etcd was unreachable, or this process
--   stood still
-- @field revoked the lease was revoked. The loss may also be reported as `deleted`, because etcd
--   deletes the lease's keys
-- @field deleted the key was deleted
-- @field replaced another client overwrote the key and detached it from the lease. Such a key
--   blocks nobody
-- @field cluster_changed another cluster answers, or the same cluster was wiped or restored from a
--   backup
-- @field max_hold the time of `max_hold`, or of `lock:expire`, is over

-- Raises for a call of the client that was made at the module, such as etcdlock.lock(name), and for
-- a constructor of another name.
setmetatable(M, { __index = function(_, name)
  if name == "new" or name == "client" or name == "open" then
    check.raise(string.format("etcdlock.%s: there is no such function; write "
      .. "etcdlock.connect { endpoints = \"127.0.0.1:2379\" }", name))
  end
  if type(name) == "string" and not name:find "^_" and Client[name] then
    check.raise(string.format("etcdlock.%s: it is a call of a client: local client ="
      .. " assert(etcdlock.connect()); client:%s(…)", name, name))
  end
end })

return M
