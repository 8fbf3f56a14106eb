--- The options of connect, and the environment variables of etcdctl, whose values replace missing
-- options.
-- @submodule etcdlock
local BOOLEANS = require("etcdlock.text").BOOLEANS
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local loops = require "etcdlock.wait.loop"

local M = {}

-- Largest lock delay in seconds. Lock delays are limited, because only an operator can end one
-- early, for example by break_lock.
M.LOCK_DELAY_MAX = 300

local WHERE = "etcdlock.connect"
local DEFAULT_ENDPOINT = "127.0.0.1:2379"
local ENDPOINTS_MAX = 32
local HANDOFF_MAX = 1000000 -- holds
local PATTERNS_MAX, PATTERN_BYTES_MAX = 100, 128

-- ---- the options ----

local function check_endpoint_types(where, field, value)
  if type(value) == "table" then
    local count = 0
    for i in pairs(value) do
      if type(i) ~= "number" then
        check.raise(string.format('%s: %s has fields with names, wanted a list such as { "%s" }',
          where, field, DEFAULT_ENDPOINT))
      end
      count = count + 1
    end
    for i = 1, count do
      check.string(where, field .. "[" .. i .. "]", value[i])
    end
  elseif value ~= nil then
    check.string(where, field, value)
  end
end

local function check_handoff_type(where, field, value)
  if value ~= nil and value ~= false and type(value) ~= "number" then
    check.raise_type(where, field, value, "false or a number")
  end
end

local function check_metrics_types(where, field, value)
  if type(value) == "table" then
    for i = 1, math.max(check.length(value), 1) do
      check.string(where, field .. "[" .. i .. "]", value[i])
    end
  elseif value ~= nil and value ~= true then
    check.callable(where, field, value, "true, a list of patterns or a function")
  end
end

local function is_handoff(holds)
  return holds == false or check.is_within(holds, 1, HANDOFF_MAX) and holds % 1 == 0
end

local function is_prefix(prefix)
  return #prefix < core.NAME_MAX and not prefix:find "%z"
end

-- Returns the declaration of an option whose value is a text. The arguments are its aliases.
local function text_option(...)
  return {
    type = "string",
    aliases = { ... },
    is_valid = function(value)
      return value ~= "" and not value:find "%z"
    end,
    wanted = "a text without NUL, not an empty one",
  }
end

--- The options of `etcdlock.connect`. A missing option whose default is an `ETCDCTL_` variable gets
-- the value of that variable, unless `env` is false, or another option takes its place:
-- `cacert_pem`, `cert_pem`, `key_pem` or `token`.
-- @table connect_options
-- @tfield[opt="`ETCDCTL_ENDPOINTS` or `127.0.0.1:2379`"] string|{string,...} endpoints 1 to 32
--   addresses of etcd members: a list, or one string with commas. An address is `host:port`,
--   `http://host:port`, `https://host:port`, `unix:PATH` or, with TLS, `unixs:PATH`. An IPv6
--   address is in brackets, as in `[2001:db8::1]:2379` or `[fe80::1%eth0]:2379`. Without a scheme,
--   the client uses TLS if any option of TLS is given. The client begins with the first address,
--   and goes on in this order until one answers. For each address before it that neither answers
--   nor refuses, the first lock comes 1.2 s later or more
-- @tfield[opt=10] seconds ttl TTL of the client's lease, 2 to 300. If the client crashes, etcd
--   deletes its keys after that time and the `lock_delay`. The TTL should be at least four times
--   what an answer of etcd takes, and eight times (sixteen with one endpoint) to outlive a member
--   or connection that hangs ([slow etcd](production.md#how-slow-etcd-may-be))
-- @tfield[opt=0] seconds lock_delay [lock delay](#lock-delay) of all locks of the client, 0 to 300
-- @tfield[opt="no limit; in nginx 5"] seconds timeout default of the option `timeout` of a lock
--   call; `math.huge`: no limit
-- @tfield[opt=none] string prefix text in front of every lock name. Messages, the log and metrics
--   show [full names](README.md#terms), with the prefix
-- @tfield[opt="`ETCDCTL_CACERT` or this system's CAs"] string cacert file with the CA certificates
--   that the client trusts
-- @tfield[opt=`ETCDCTL_CERT`] string cert file with the client certificate
-- @tfield[opt=`ETCDCTL_KEY`] string key file with the private key of `cert`
-- @tfield[opt] string cacert_pem PEM text, instead of the file `cacert`
-- @tfield[opt] string cert_pem PEM text, instead of the file `cert`
-- @tfield[opt] string key_pem PEM text, instead of the file `key`
-- @tfield[opt="host of the endpoint"] string server_name host name that etcd's certificate must
--   contain
-- @tfield[opt=`ETCDCTL_INSECURE_TRANSPORT`] boolean insecure_transport `false`: endpoints without a
--   scheme use TLS. The variable is `true` or `false`, in any spelling of Go's `ParseBool`
-- @tfield[opt=`ETCDCTL_USER`] string user user name, for an etcd with authentication. The variable
--   may also be `name:password`. The client renews the user's auth token itself
-- @tfield[opt=`ETCDCTL_PASSWORD`] string password password of `user`
-- @tfield[opt=none] string token auth token, instead of `user` and `password`. The client does not
--   renew it
-- @tfield[opt=false] boolean allow_plaintext_auth `true`: the client may send a password or token
--   in plain text to another machine; without it, such a `connect` fails with `invalid`
-- @tfield[opt=32] count|false handoff number of holds in a row, 1 to 1000000, for which owners of
--   this client may [hand a lock off](#handoff) to each other; 1 or `false`: never
-- @tfield[opt=0.05] seconds handoff_time time after the grant, 0 to 60, after which no hold begins
--   by handoff
-- @tfield[opt=false] boolean fail_fast `true`: while etcd is known to be unreachable, every call
--   that needs etcd, except `client:status`, fails with `unavailable` at once, also one that
--   already waits. The client learns of the outage when a first request fails. A read in the
--   background tells when etcd answers again
-- @tfield[opt=true] boolean env `false`: the client ignores the environment variables
-- @tfield[opt="detected"] string loop event loop to which waiting calls yield. `"luv"`, `"copas"`:
--   needed only if the client cannot detect that this loop runs. `"none"`: waiting calls always
--   block
-- @tfield[opt="`TMPDIR` or `/tmp`"] string socket_dir in nginx: directory in which a worker creates
--   the socket that wakes its nginx requests. The worker deletes the file at once, but must be
--   able to write there
-- @tfield[opt="some events, on standard error; in nginx in the error log"] logger log function that
--   is called with each [event](observability.md#the-log)
-- @tfield[opt=100] count log_rate number of events of each kind per second, 0 or more, that are
--   passed to `log`. The client counts the further events and logs their number
-- @tfield[opt=none] patterns metrics how locks are [labelled](observability.md#metrics) in
--   `client:metrics`. Without it, lost and leaked locks are counted without the label `lock`, and
--   the other metrics with this label are missing
M.OPTIONS = {
  endpoints = {
    check = check_endpoint_types,
    aliases = {
      "endpoint", "host", "hosts", "port", "address", "addresses", "url", "urls", "server",
      "servers", "http_host", "etcd_host",
    },
  },
  ttl = {
    type = "number", default = 10, is_valid = check.within(2, 300), wanted = "2 to 300 seconds",
    aliases = { "ttl_seconds", "ttl_s", "exptime", "expire", "expires", "lease", "lease_ttl" },
  },
  lock_delay = {
    aliases = { "delay" },
    type = "number", default = 0, is_valid = check.within(0, M.LOCK_DELAY_MAX),
    wanted = "0 to " .. M.LOCK_DELAY_MAX .. " seconds",
  },
  timeout = {
    type = "number", is_valid = check.within(0, math.huge), wanted = "0 or more seconds",
    aliases = { "wait_timeout", "lock_timeout", "timeout_seconds", "wait" },
  },
  prefix = {
    type = "string", default = "", is_valid = is_prefix, aliases = { "key_prefix", "namespace" },
    wanted = "less than " .. core.NAME_MAX .. " bytes, no NUL",
  },
  cacert = text_option("ca", "cafile", "ca_file", "ca_cert", "trusted_ca_file", "tls", "ssl",
    "verify", "ssl_verify"),
  cert = text_option("cert_file", "certfile", "ssl_cert_path"),
  key = text_option("key_file", "keyfile", "ssl_key_path"),
  cacert_pem = text_option(),
  cert_pem = text_option(),
  key_pem = text_option(),
  server_name = text_option("sni"),
  insecure_transport = { type = "boolean" },
  user = text_option("username", "user_name"),
  password = text_option("pass", "passwd", "pwd", "secret"),
  token = text_option(),
  allow_plaintext_auth = { type = "boolean" },
  handoff = {
    check = check_handoff_type, default = 32, is_valid = is_handoff,
    wanted = "false, or a whole number of holds from 1 to " .. HANDOFF_MAX,
  },
  handoff_time = {
    type = "number", default = 0.05, is_valid = check.within(0, 60), wanted = "0 to 60 seconds",
  },
  fail_fast = { type = "boolean" },
  env = { type = "boolean" },
  loop = { type = "string" },
  socket_dir = text_option(),
  log = { type = "function", aliases = { "logger", "on_event" } },
  log_rate = {
    type = "number", default = 100,
    is_valid = function(rate)
      return rate >= 0 and (rate == math.huge or rate % 1 == 0)
    end,
    wanted = "a whole number of events a second, 0 or more",
  },
  metrics = { check = check_metrics_types },
}

-- Returns true if the client has a user (`has_user`) and the value of `password` is allowed.
-- Otherwise returns nil, message, "invalid".
function M.check_password(where, has_user, password)
  local option = M.OPTIONS.password
  if not has_user then
    return check.invalid(where, "password", password, "a client that was given a user at connect")
  elseif not option.is_valid(password) then
    return check.invalid(where, "password", password, option.wanted)
  end
  return true
end

local NAMES = check.sorted_keys(M.OPTIONS)

-- Options that connect does not take, each with the calls that take it, for messages.
local ELSEWHERE = {
  max_hold = "client:lock and other calls that take a lock",
  linger = "client:lock and other calls that take a lock",
  owner = "client:lock and other calls that take a lock",
  value = "client:lock and other calls that take a lock",
}

-- ---- the environment ----

-- Each entry: the variable, the option that it gives, and, for some variables, a second option. If
-- the caller gives one of these options, the variable is ignored.
local VARIABLES = {
  { "ETCDCTL_ENDPOINTS", "endpoints" },
  { "ETCDCTL_CACERT", "cacert", "cacert_pem" },
  { "ETCDCTL_CERT", "cert", "cert_pem" },
  { "ETCDCTL_KEY", "key", "key_pem" },
  { "ETCDCTL_USER", "user", "token" },
  { "ETCDCTL_PASSWORD", "password", "token" },
}

local INSECURE_TRANSPORT = "ETCDCTL_INSECURE_TRANSPORT"

-- Variables that etcdctl obeys and this client does not support, each with the reason. connect
-- refuses them, the first one unless it is false, because a client that ignored them would not
-- connect as the user expects.
local SKIP_TLS_VERIFY = "ETCDCTL_INSECURE_SKIP_TLS_VERIFY"
local UNSUPPORTED = {
  [SKIP_TLS_VERIFY] = "TLS verification cannot be disabled",
  ETCDCTL_DISCOVERY_SRV = "discovery by DNS SRV is not supported",
}

local function get_variable(name)
  local value = os.getenv(name)
  return value ~= "" and value or nil
end

local function refuse_unsupported_variables()
  for name, reason in pairs(UNSUPPORTED) do
    local value = get_variable(name)
    local is_off = name == SKIP_TLS_VERIFY and BOOLEANS[value or ""] == false
    if value and not is_off then
      return check.invalid(WHERE, name, value, "no value: " .. reason .. "; unset it")
    end
  end
  return true
end

local function read_insecure_transport(opts, settings, names)
  local value = get_variable(INSECURE_TRANSPORT)
  if value and opts.insecure_transport == nil then
    if BOOLEANS[value] == nil then
      return check.invalid(WHERE, INSECURE_TRANSPORT, value, '"true" or "false"')
    end
    settings.insecure_transport = BOOLEANS[value]
    names.insecure_transport = INSECURE_TRANSPORT
  end
  return settings, names
end

-- Adds the values of the environment to the options. Returns the settings (option -> value) and
-- their names (option -> the option or variable that gave the value), for messages. If a variable
-- is not allowed, returns nil, message, code.
local function add_environment(opts)
  local settings, names = {}, {}
  for field, value in pairs(opts) do
    settings[field], names[field] = value, field
  end
  if opts.env == false then
    return settings, names
  end
  local ok, message, code = refuse_unsupported_variables()
  if not ok then
    return nil, message, code
  end
  for _, variable in ipairs(VARIABLES) do
    local name, field, other = variable[1], variable[2], variable[3]
    local value = get_variable(name)
    if value and opts[field] == nil and (not other or opts[other] == nil) then
      settings[field], names[field] = value, name
    end
  end
  return read_insecure_transport(opts, settings, names)
end

-- ---- checks ----
-- Each check takes the settings and their names, as add_environment returns them, and may change
-- both. It returns true, or nil, message, "invalid".

-- Returns the option `endpoints` as a list. A string may contain several endpoints with commas
-- between them.
local function split_endpoints(value)
  if type(value) == "table" then
    return value
  end
  local list = {}
  for endpoint in value:gmatch "[^,]+" do
    list[#list + 1] = endpoint:match "^%s*(.-)%s*$"
  end
  return list
end

-- Returns true if `endpoint` contains a user, as in "http://name:password@host:2379". In the path
-- of a unix socket, "@" has no meaning.
local function has_user(endpoint)
  return endpoint:find("@", 1, true) and not endpoint:find "^unixs?:"
end

-- Refuses endpoints with a user, because a message that shows an endpoint must not show a password.
-- If a password contains a comma, split_endpoints has cut it in two. So this function checks all
-- endpoints of the list before any message shows one of them.
local function check_no_users(list, name)
  for _, endpoint in ipairs(list) do
    if has_user(endpoint) then
      local text = '%s: %s (not shown) contains "@", wanted host:port without a user; '
        .. "give the options user and password"
      return nil, text:format(WHERE, name), "invalid"
    end
  end
  return true
end

local function check_endpoints(settings, names)
  local list = split_endpoints(settings.endpoints or DEFAULT_ENDPOINT)
  if #list == 0 then
    local text = '%s: %s is empty, wanted at least one, like "%s"'
    return nil, text:format(WHERE, names.endpoints, DEFAULT_ENDPOINT), "invalid"
  elseif #list > ENDPOINTS_MAX then
    local text = "%s: %s has %d, wanted at most %d"
    return nil, text:format(WHERE, names.endpoints, #list, ENDPOINTS_MAX), "invalid"
  end
  local ok, message, code = check_no_users(list, names.endpoints)
  if not ok then
    return nil, message, code
  end
  for _, endpoint in ipairs(list) do
    if endpoint:find "%z" then
      return check.invalid(WHERE, names.endpoints, endpoint, "no NUL")
    end
  end
  settings.endpoints = list
  return true
end

-- Checks each value by its declaration in OPTIONS, and sets the defaults.
local function check_values(settings, names)
  for _, field in ipairs(NAMES) do
    local option = M.OPTIONS[field]
    if settings[field] == nil then
      settings[field] = option.default
    else
      local ok, message, code = check.value(WHERE, names[field], settings[field], option)
      if not ok then
        return nil, message, code
      end
    end
  end
  return true
end

local function check_files(settings, names)
  for _, field in ipairs { "cacert", "cert", "key" } do
    if settings[field] and check.is_pem_text(settings[field]) then
      local text = "%s: %s (not shown) is a text, but must be a file name; a text goes into %s_pem"
      return nil, text:format(WHERE, names[field], field), "invalid"
    elseif settings[field] and settings[field .. "_pem"] then
      local wanted = "only one of " .. field .. " and " .. field .. "_pem"
      return check.invalid(WHERE, names[field], settings[field], wanted)
    end
  end
  return true
end

-- Splits "name:password" of ETCDCTL_USER, unless a password is given separately. Refuses a user
-- without a password, a password without a user, and a token together with a user.
local function check_user(settings, names)
  if settings.token and settings.user then
    return check.invalid(WHERE, "token", settings.token, "either a token or a user")
  end
  local user, password = (settings.user or ""):match "^([^:]*):(.*)$"
  if user and names.user == "ETCDCTL_USER" and not settings.password then
    settings.user, settings.password = user, password
    names.password = names.user
  end
  if settings.user and not settings.password then
    local wanted = names.user == "user" and settings.user:find(":", 1, true)
      and "a name alone; give the password as the option password" or "a password as well"
    return check.invalid(WHERE, names.user, settings.user, wanted)
  elseif settings.password and not settings.user then
    return check.invalid(WHERE, names.password, settings.password, "a user as well")
  end
  return true
end

-- Makes `handoff` a number for the core, in which 0 means "never".
local function convert_handoff(settings)
  settings.handoff = settings.handoff or 0
  return true
end

local function check_loop(settings)
  local choices = loops.choices()
  for _, name in ipairs(choices) do
    if settings.loop == nil or settings.loop == name then
      return true
    end
  end
  local wanted = ('"%s"; other loops are detected'):format(table.concat(choices, '", "'))
  return check.invalid(WHERE, "loop", settings.loop, wanted)
end

local function check_metrics(settings)
  local list = settings.metrics
  settings.wants_events = settings.log ~= nil or list ~= nil
  if type(list) ~= "table" then
    return true
  elseif #list < 1 or #list > PATTERNS_MAX then
    return check.invalid(WHERE, "#metrics", #list, "1 to " .. PATTERNS_MAX .. " patterns")
  end
  for i, pattern in ipairs(list) do
    if pattern == "" or #pattern > PATTERN_BYTES_MAX or pattern:find "%z" then
      local wanted = "1 to " .. PATTERN_BYTES_MAX .. " bytes, no NUL"
      return check.invalid(WHERE, "metrics[" .. i .. "]", pattern, wanted)
    end
  end
  return true
end

-- Sets `tls`, which tells whether the client uses TLS for endpoints without a scheme. Like etcdctl,
-- the client uses TLS there if any option of TLS is given.
local function choose_tls(settings)
  settings.tls = settings.insecure_transport == false
  for field in pairs(settings) do
    if field:find "^c?a?cert" or field:find "^key" or field == "server_name" then
      settings.tls = true
    end
  end
  return true
end

local CHECKS = {
  check_endpoints, check_values, check_files, check_user, convert_handoff, check_loop,
  check_metrics, choose_tls,
}

-- Checks the options of connect and completes them from the environment and by defaults. Returns
-- the settings of the client. If a value is not allowed, returns nil, message, code. Raises for an
-- unknown option or a wrong type.
function M.read(opts)
  opts = check.options(WHERE, opts, M.OPTIONS, ELSEWHERE)
  for _, field in ipairs(NAMES) do
    local check_type = M.OPTIONS[field].check
    if check_type then
      check_type(WHERE, field, opts[field])
    end
  end
  local settings, names, code = add_environment(opts)
  if not settings then
    return nil, names, code
  end
  for _, run_check in ipairs(CHECKS) do
    local ok, message
    ok, message, code = run_check(settings, names)
    if not ok then
      return nil, message, code
    end
  end
  settings.names = names
  return settings
end

-- Returns the core's `message` about an option. If the option's value came from an environment
-- variable, the returned message also names that variable.
function M.name_source(settings, message)
  local field, rest = message:match "^([a-z_]+)(.*)$"
  field = field == "endpoint" and "endpoints" or field
  local source = settings.names[field]
  if not source or source == field then
    return WHERE .. ": " .. message
  end
  return string.format("%s: %s: %s%s", WHERE, source, field, rest)
end

return M
