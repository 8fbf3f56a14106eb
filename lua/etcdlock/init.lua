--- Distributed locks through etcd: fair, fenced, reentrant, released when their holder
-- dies, and honest about loss.
--
-- Everything that can go wrong at run time is answered with nil, message, code; misuse
-- (a wrong type, an unknown option) raises. Times are seconds, fractions allowed.
-- @module etcdlock
local Client = require "etcdlock.client"
local check = require "etcdlock.check"
local connect_options = require "etcdlock.connect_options"
local core = require "etcdlock.core"
local finally = require "etcdlock.finally"
local host = require "etcdlock.wait.host"
local on_first_use = require "etcdlock.on_first_use"

local M = { _VERSION = "0.2.0" }

-- `first` is the first argument of the function `name`, to be called like `shown`.
local function refuse_colon(first, name, shown)
  if first == M then
    check.raise(string.format("%s: it is called with a dot, %s, not with a colon", name, shown))
  end
end

--- Makes a client for one etcd cluster. Sends nothing before the first use.
-- @tparam[opt] connect_options opts
-- @treturn client
-- @fail invalid, nomem, forked, context: `forked` in a process that was forked after its
--   parent had connected, `context` in nginx's `init_by_lua`
-- @raise for an unknown option, a wrong type
function M.connect(opts)
  refuse_colon(opts, "etcdlock.connect", "etcdlock.connect{…}")
  local known, message, code = connect_options.read(opts)
  if not known then
    return nil, message, code
  end
  message, code = host.too_early()
  if message then
    return nil, message, code
  end
  local client
  client, message, code = core.connect(known)
  if not client and code == "invalid" then
    message = connect_options.name_source(known, message)
  end
  if not client then
    return nil, message, code
  end
  host.connected(client)
  return Client.new(client, known)
end

-- The default client, made on first use with connect's defaults: client | nil,
-- message, code. One per process. For here and resty.etcdlock.
M._default = on_first_use(M.connect)

--- Runs a function under a lock of the default client: one per process, made on first use
-- with the defaults of `connect`.
-- @tparam string name
-- @tparam[opt] lock_options opts may be left out
-- @tparam body fn called with the lock
-- @treturn true
-- @treturn any what `fn` has returned
-- @fail as client:with_lock, etcdlock.connect
-- @raise an error in `fn`, the same object; for an unknown option, a wrong type
function M.with_lock(name, opts, fn)
  refuse_colon(name, "etcdlock.with_lock", "etcdlock.with_lock(…)")
  local client, message, code = M._default()
  if not client then
    return nil, message, code
  end
  return client:with_lock(name, opts, fn)
end

--- Makes one page of several that `client:metrics` has answered. What has the same name and
-- labels in them is added up.
-- @function join_metrics
-- @tparam {string,...} texts
-- @treturn string
-- @fail never
function M.join_metrics(texts)
  return require "etcdlock.metrics".join(texts)
end

--- Tells where the last error came from that went through a `with_lock`. Only needed before
-- Lua 5.4 and in coroutines; elsewhere, whoever catches the error still finds the stack.
-- @function traceback
-- @treturn string|nil nil if there was no error
-- @fail never
M.traceback = finally.traceback

--- What the third result of a call that fails may be: for programs. The second is a
-- message, for people. Any call that asks etcd may answer `unavailable`, `unauthenticated`,
-- `denied`, `no_space`, `invalid`, `conflict`, `protocol`, `nomem`, `closed`, `forked`, `context`
-- and `premature`: these are "a request's".
-- @table code
-- @field timeout the lock was not free in time
-- @field locked a try found it taken
-- @field deadlock this wait could never end: another owner in this program holds it
-- @field not_held it is released already; or not that token's
-- @field lost it was ours, or our entry in the queue was, and is no longer
-- @field cancelled the wait was given up by `pending:cancel()`
-- @field closed the client was closed
-- @field unavailable etcd can't be reached, or did not answer in time
-- @field unauthenticated etcd wants a user, another one, or a client certificate
-- @field denied this user may not do that, or etcd wants a client certificate
-- @field no_space etcd's database is full
-- @field invalid a value that can't work, or etcd rejects the request
-- @field conflict another cluster answers than the one we began with: connect anew
-- @field context waiting is not possible in this place of nginx or of an event loop
-- @field premature in nginx: the worker exits, and its timers take no lock and wait for none
--   any more
-- @field forked the client belongs to the parent process
-- @field protocol the other end does not speak etcd's v3 API
-- @field nomem no memory, or no room for threads or descriptors

--- What `lock:on_lost` and `lock:wait_lost` tell.
-- @table reason
-- @field expired no proof in time that the session's lease lives: etcd out of reach, or we
--   stood still
-- @field revoked the lease was revoked; it may be seen as `deleted`, as its keys go with it
-- @field deleted the key was deleted
-- @field replaced somebody overwrote our key and took it off our lease, so that it blocks nobody
-- @field cluster_changed another cluster answers, or an earlier state of ours: wiped, or
--   restored from a backup
-- @field max_hold that time has passed

return M
