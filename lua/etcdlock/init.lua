--- etcdlock: distributed locks through etcd: fair, fenced, reentrant, released
-- when their holder dies, and honest about loss.
--
-- Everything that can go wrong at run time is answered with nil, message,
-- code; misuse raises. Times are seconds, fractions allowed.
local Client = require "etcdlock.client"
local check = require "etcdlock.check"
local connect_options = require "etcdlock.connect_options"
local core = require "etcdlock.core"
local finally = require "etcdlock.finally"
local host = require "etcdlock.wait.host"
local on_first_use = require "etcdlock.on_first_use"

local M = { _VERSION = "0.2.0" }

--- `first` is the first argument of the function `name`, to be called like `shown`.
local function refuse_colon(first, name, shown)
  if first == M then
    check.raise(string.format("%s: it is called with a dot, %s, not with a colon", name, shown))
  end
end

--- A client for one etcd cluster. Nothing is sent before the first use.
-- @param opts endpoints (a list, or a string with commas, of "host:port",
--   "http://host:port", "https://host:port" or "unix:path"), ttl (lease seconds,
--   2 to 300, default 10), timeout (default of lock calls), prefix (put in front
--   of every lock name), cacert, cert, key (file names), cacert_pem, cert_pem,
--   key_pem (texts), server_name, insecure_transport (false: TLS to endpoints that don't
--   say), user, password, token, allow_plaintext_auth,
--   fail_fast (true: nobody waits for an etcd that is known to be out of reach),
--   socket_dir (in nginx, where the socket is made that wakes its requests),
--   env (false: etcdctl's variables, the defaults of most of these, are ignored), log
--   (called with a message when a lock is released because nobody kept it)
-- @return client | nil, message, code: "invalid", "nomem", "forked" in a process
--   that was forked after its parent had connected, or "context" in nginx's
--   init_by_lua
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
  return Client.new(client, known)
end

--- The default client, made on first use with connect's defaults: client | nil,
-- message, code. One per process. For here and resty.etcdlock.
M._default = on_first_use(M.connect)

--- with_lock of the default client. See client:with_lock.
function M.with_lock(name, opts, fn)
  refuse_colon(name, "etcdlock.with_lock", "etcdlock.with_lock(…)")
  local client, message, code = M._default()
  if not client then
    return nil, message, code
  end
  return client:with_lock(name, opts, fn)
end

--- Where the last error came from that went through with_lock: a traceback.
-- Only before Lua 5.4 and in coroutines; elsewhere, whoever catches the error
-- still has the stack.
M.traceback = finally.traceback

return M
