--- What connect needs to know: its options, and etcdctl's variables for those
-- that are left out.
-- @submodule etcdlock
local booleans = require "etcdlock.booleans"
local check = require "etcdlock.check"
local loops = require "etcdlock.wait.loops"

local M = {}

local NAME_MAX = require("etcdlock.core").NAME_MAX
local ENDPOINTS_MAX = 32
local TTL_MIN, TTL_MAX, TTL_DEFAULT = 2, 300, 10
local HANDOFF, HANDOFF_MAX = 32, 1000000
local HANDOFF_TIME, HANDOFF_TIME_MAX = 0.05, 60
local DEFAULT_ENDPOINT = "127.0.0.1:2379"
local LOG_RATE = 100
local PATTERNS_MAX, PATTERN_BYTES_MAX = 100, 128
local WHERE = "etcdlock.connect"

--- The options of `etcdlock.connect`.
-- @table connect_options
-- @tfield[opt="`ETCDCTL_ENDPOINTS` or `127.0.0.1:2379`"] string|{string,...} endpoints
--   the members: a list, or one string with commas; each `host:port`, `http://…`,
--   `https://…` or `unix:PATH`; an IPv6 address in brackets, as in `[2001:db8::1]:2379` or
--   `[fe80::1%eth0]:2379`. Without a scheme it is TLS if any option of TLS is given
-- @tfield[opt=10] seconds ttl how long etcd keeps our locks without hearing from us, 2 to 300
-- @tfield[opt="no limit"] seconds timeout how long lock calls wait
-- @tfield[opt=none] string prefix put in front of every lock name
-- @tfield[opt="`ETCDCTL_CACERT` or this system's CAs"] string cacert a file: whom to trust
-- @tfield[opt=`ETCDCTL_CERT`] string cert a file: who we are
-- @tfield[opt=`ETCDCTL_KEY`] string key a file: the key of that
-- @tfield[opt] string cacert_pem the text instead of `cacert`
-- @tfield[opt] string cert_pem the text instead of `cert`
-- @tfield[opt] string key_pem the text instead of `key`
-- @tfield[opt="that of the endpoint"] string server_name the name to be found in etcd's
--   certificate
-- @tfield[opt=`ETCDCTL_INSECURE_TRANSPORT`] boolean insecure_transport `false`: endpoints
--   without a scheme are TLS. The variable is `true` or `false`, in one of Go's spellings
-- @tfield[opt=`ETCDCTL_USER`] string user for an etcd with authentication; the variable may
--   also be `name:password`. Its tokens are renewed by themselves
-- @tfield[opt=`ETCDCTL_PASSWORD`] string password the user's
-- @tfield[opt=none] string token a ready one instead, which nobody renews
-- @tfield[opt=refused] boolean allow_plaintext_auth `true` lets a password or token pass in
--   plain text to other machines
-- @tfield[opt=32] count|false handoff how many holds in a row the owners of this client may
--   hand a lock on to each other while others wait; `false`: never
-- @tfield[opt=0.05] seconds handoff_time and for how long
-- @tfield[opt=false] boolean fail_fast `true`: while etcd is known to be out of reach, calls
--   answer `unavailable` at once, those that wait included, instead of waiting their time
--   out. Whoever comes first finds out; a read in the background finds out that it is back
-- @tfield[opt=true] boolean env `false`: the environment is not looked at
-- @tfield[opt=found] string loop `"luv"` or `"copas"`: it runs and is to be yielded to;
--   `"none"`: block always
-- @tfield[opt="`TMPDIR` or `/tmp`"] string socket_dir in nginx: the directory in which the
--   socket is made by which its requests are woken. It is unlinked at once, but for that
--   moment each worker must be able to write there
-- @tfield[opt="of a lock that nobody kept: to standard error once"] logger log called with an
--   [event](observability.md#the-log): a lock was waited for, taken, released, lost,
--   [released because nobody kept it](#taking-a-lock) …
-- @tfield[opt=100] count log_rate so many events of each kind a second are told to `log`, and
--   the number of the others; 0 or more
-- @tfield[opt=none] patterns metrics `true`, patterns of names (`"stock/*"`), or a function
--   from a name and a mode to a label: by what [metrics](observability.md#metrics) tells apart
--   how long locks are waited for and held
local OPTIONS = {
  endpoints = "any", -- string or list
  ttl = "number",
  timeout = "number",
  handoff = "any", -- false or number
  handoff_time = "number",
  prefix = "string",
  cacert = "string",
  cert = "string",
  key = "string",
  cacert_pem = "string",
  cert_pem = "string",
  key_pem = "string",
  server_name = "string",
  insecure_transport = "boolean",
  user = "string",
  password = "string",
  token = "string",
  allow_plaintext_auth = "boolean",
  env = "boolean",
  loop = "string",
  socket_dir = "string",
  log = "function",
  log_rate = "number",
  metrics = "any", -- true, a list of patterns or a function
  fail_fast = "boolean",
}
M.OPTIONS = OPTIONS

-- Options that are not connect's, and where they belong.
local ELSEWHERE = {
  max_hold = "client:lock and its like",
  linger = "client:lock and its like",
  lock_delay = "client:lock and its like",
  owner = "client:lock and its like",
  value = "client:lock and its like",
}

local TEXTS = {
  "cacert", "cert", "key", "cacert_pem", "cert_pem", "key_pem",
  "server_name", "user", "password", "token", "socket_dir",
}

-- ---- the environment ----

-- An option (either of its forms) beats its variable.
local VARIABLES = {
  { "ETCDCTL_ENDPOINTS", "endpoints" },
  { "ETCDCTL_CACERT", "cacert", "cacert_pem" },
  { "ETCDCTL_CERT", "cert", "cert_pem" },
  { "ETCDCTL_KEY", "key", "key_pem" },
  { "ETCDCTL_USER", "user", "token" },
  { "ETCDCTL_PASSWORD", "password", "token" },
}

local INSECURE_TRANSPORT = "ETCDCTL_INSECURE_TRANSPORT"

-- Variables that would have etcdctl do what we don't: not to be overlooked.
local SKIP_TLS_VERIFY = "ETCDCTL_INSECURE_SKIP_TLS_VERIFY"
local REFUSED = {
  [SKIP_TLS_VERIFY] = "verification can't be switched off",
  ETCDCTL_DISCOVERY_SRV = "discovery by DNS SRV is not supported",
}

local function variable(name)
  local value = os.getenv(name)
  return value ~= "" and value or nil
end

-- The options with the environment's values where there were none, and where
-- each came from, for messages: settings, names | nil, message, code.
local function with_environment(opts)
  local settings, names = {}, {}
  for field, value in pairs(opts) do
    settings[field], names[field] = value, field
  end
  if opts.env == false then
    return settings, names
  end
  for name, why in pairs(REFUSED) do
    local value = variable(name)
    local is_off = name == SKIP_TLS_VERIFY and booleans[value or ""] == false
    if value and not is_off then
      return check.invalid(WHERE, name, value, "no value: " .. why .. "; unset it")
    end
  end
  for _, entry in ipairs(VARIABLES) do
    local name, field, other = entry[1], entry[2], entry[3]
    local value = variable(name)
    if value and opts[field] == nil and (not other or opts[other] == nil) then
      settings[field], names[field] = value, name
    end
  end
  local insecure = variable(INSECURE_TRANSPORT)
  if insecure and opts.insecure_transport == nil then
    if booleans[insecure] == nil then
      return check.invalid(WHERE, INSECURE_TRANSPORT, insecure, '"true" or "false"')
    end
    settings.insecure_transport = booleans[insecure]
    names.insecure_transport = INSECURE_TRANSPORT
  end
  return settings, names
end

-- ---- checks ----

-- The list that `endpoints` stands for: a string may hold several.
local function endpoint_list(value)
  if type(value) == "table" then
    return value
  end
  local list = {}
  for one in value:gmatch("[^,]+") do
    list[#list + 1] = one:match("^%s*(.-)%s*$")
  end
  return list
end

-- Does |endpoint| contain a user, as in "http://name:password@host:2379"? In the path of a unix
-- socket an "@" is a character like others.
local function has_user(endpoint)
  return endpoint:find("@", 1, true) and not endpoint:find "^unixs?:"
end

-- No message about an endpoint may show a password. A string is split at commas, which a password
-- may contain: so all endpoints are looked at before any of them is shown.
local function check_no_users(list, name)
  for _, one in ipairs(list) do
    if has_user(one) then
      local text = '%s: %s (not shown) contains "@", wanted host:port without a user; '
        .. "give the options user and password"
      return nil, text:format(WHERE, name), "invalid"
    end
  end
  return true
end

local function check_endpoints(settings, names)
  local list = endpoint_list(settings.endpoints or DEFAULT_ENDPOINT)
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
  for _, one in ipairs(list) do
    if one:find("%z") then
      return check.invalid(WHERE, names.endpoints, one, "no NUL")
    end
  end
  settings.endpoints = list
  return settings
end

local function check_endpoint_types(value)
  if type(value) ~= "table" then
    if value ~= nil then
      check.string(WHERE, "endpoints", value)
    end
    return
  end
  for i, one in ipairs(value) do
    check.string(WHERE, "endpoints[" .. i .. "]", one)
  end
end

local function check_texts(settings, names)
  for _, field in ipairs(TEXTS) do
    local value = settings[field]
    if value and (value == "" or value:find("%z")) then
      return check.invalid(WHERE, names[field], value, "a text without NUL, not an empty one")
    end
  end
  for _, field in ipairs { "cacert", "cert", "key" } do
    if settings[field] and check.is_pem_text(settings[field]) then
      local text = "%s: %s (not shown) is a text, but must be a file name; a text goes into %s_pem"
      return nil, text:format(WHERE, names[field], field), "invalid"
    elseif settings[field] and settings[field .. "_pem"] then
      local wanted = "only one of " .. field .. " and " .. field .. "_pem"
      return check.invalid(WHERE, names[field], settings[field], wanted)
    end
  end
  return settings
end

-- Splits etcdctl's "name:password", and sees that the parts are complete.
local function check_user(settings, names)
  if settings.token and settings.user then
    return check.invalid(WHERE, "token", settings.token, "either a token or a user")
  end
  local user, password = (settings.user or ""):match("^([^:]*):(.*)$")
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
  return settings
end

local function check_numbers(settings)
  settings.ttl = settings.ttl or TTL_DEFAULT
  if not check.is_within(settings.ttl, TTL_MIN, TTL_MAX) then
    return check.invalid(WHERE, "ttl", settings.ttl, TTL_MIN .. " to " .. TTL_MAX .. " seconds")
  end
  if settings.timeout and not check.is_within(settings.timeout, 0, math.huge) then
    return check.invalid(WHERE, "timeout", settings.timeout, "0 or more seconds")
  end
  return settings
end

-- The C core knows 0 for "never".
local function check_handoff(settings)
  local holds, seconds = settings.handoff, settings.handoff_time or HANDOFF_TIME
  if holds == nil or holds == true then
    holds = HANDOFF
  end
  if not check.is_within(holds or 1, 1, HANDOFF_MAX) or (holds or 1) % 1 ~= 0 then
    local wanted = "false, or 1 to " .. HANDOFF_MAX .. " holds in a row"
    return check.invalid(WHERE, "handoff", settings.handoff, wanted)
  end
  if not check.is_within(seconds, 0, HANDOFF_TIME_MAX) then
    local wanted = "0 to " .. HANDOFF_TIME_MAX .. " seconds"
    return check.invalid(WHERE, "handoff_time", settings.handoff_time, wanted)
  end
  settings.handoff, settings.handoff_time = holds or 0, seconds
  return settings
end

local function check_log(settings)
  settings.log_rate = settings.log_rate or LOG_RATE
  if not check.is_within(settings.log_rate, 0, math.huge) then
    return check.invalid(WHERE, "log_rate", settings.log_rate, "0 or more events a second")
  end
  return settings
end

local function check_metrics(settings)
  local list = settings.metrics
  settings.wants_events = settings.log ~= nil or list ~= nil
  if type(list) ~= "table" then
    return settings
  elseif #list < 1 or #list > PATTERNS_MAX then
    return check.invalid(WHERE, "#metrics", #list, "1 to " .. PATTERNS_MAX .. " patterns")
  end
  for i, pattern in ipairs(list) do
    local field = "metrics[" .. i .. "]"
    if pattern == "" or #pattern > PATTERN_BYTES_MAX or pattern:find "%z" then
      local wanted = "1 to " .. PATTERN_BYTES_MAX .. " bytes, no NUL"
      return check.invalid(WHERE, field, pattern, wanted)
    end
  end
  return settings
end

local function check_metrics_types(value)
  if type(value) == "table" then
    for i = 1, math.max(#value, 1) do
      check.string(WHERE, "metrics[" .. i .. "]", value[i])
    end
  elseif value ~= nil and value ~= true then
    check.callable(WHERE, "metrics", value)
  end
end

local function check_prefix(settings)
  settings.prefix = settings.prefix or ""
  if #settings.prefix >= NAME_MAX or settings.prefix:find("%z") then
    local wanted = "less than " .. NAME_MAX .. " bytes, no NUL"
    return check.invalid(WHERE, "prefix", settings.prefix, wanted)
  end
  return settings
end

local function check_loop(settings)
  local choices = loops.choices()
  for _, name in ipairs(choices) do
    if settings.loop == nil or settings.loop == name then
      return settings
    end
  end
  local wanted = string.format('"%s"; the others are found', table.concat(choices, '", "'))
  return check.invalid(WHERE, "loop", settings.loop, wanted)
end

-- etcdctl's rule for an endpoint that doesn't say: TLS if anything of TLS is
-- given.
local function choose_tls(settings)
  settings.tls = settings.insecure_transport == false
  for field in pairs(settings) do
    if field:find("^c?a?cert") or field:find("^key") or field == "server_name" then
      settings.tls = true
    end
  end
  return settings
end

-- connect's options, checked and completed | nil, message, code.
function M.read(opts)
  opts = check.types(WHERE, opts, OPTIONS, ELSEWHERE)
  check_endpoint_types(opts.endpoints)
  check_metrics_types(opts.metrics)
  if type(opts.handoff) ~= "boolean" and opts.handoff ~= nil then
    check.number(WHERE, "handoff", opts.handoff)
  end
  local settings, names, code = with_environment(opts)
  if not settings then
    return nil, names, code
  end
  for _, step in ipairs {
    check_endpoints, check_texts, check_user, check_numbers, check_handoff, check_prefix,
    check_loop, check_log, check_metrics, choose_tls,
  } do
    local ok, message
    ok, message, code = step(settings, names)
    if not ok then
      return nil, message, code
    end
  end
  settings.names = names
  return settings
end

-- The core's message about an option, with the variable that it came from.
function M.name_source(settings, message)
  local field, rest = message:match("^([a-z_]+)(.*)$")
  field = field == "endpoint" and "endpoints" or field
  local source = settings.names[field]
  if not source or source == field then
    return WHERE .. ": " .. message
  end
  return string.format("%s: %s: %s%s", WHERE, source, field, rest)
end

return M
