--- What connect needs to know: its options, and etcdctl's variable for the
-- endpoint if that is left out.
local check = require "etcdlock.check"

local M = {}

local NAME_MAX = require("etcdlock.core").NAME_MAX
local TTL_MIN, TTL_MAX, TTL_DEFAULT = 2, 300, 10
local DEFAULT_ENDPOINT = "127.0.0.1:2379"
local WHERE = "etcdlock.connect"

local CONNECT = {
  endpoints = "any", -- string or list
  ttl = "number",
  timeout = "number",
  prefix = "string",
}

-- These have their place; until they work they are refused by name.
local NOT_YET = {
  cacert = "TLS", cert = "TLS", key = "TLS", server_name = "TLS",
  cacert_pem = "TLS", cert_pem = "TLS", key_pem = "TLS",
  user = "authentication", password = "authentication", token = "authentication",
}

-- Of etcdctl's variables, those that we would have to honour and can't yet.
local ENV_NOT_YET = {
  ETCDCTL_CACERT = "TLS", ETCDCTL_CERT = "TLS", ETCDCTL_KEY = "TLS",
  ETCDCTL_USER = "authentication", ETCDCTL_PASSWORD = "authentication",
}

--- The list that `endpoints` stands for: a string may hold several.
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

--- The one endpoint of option or variable `field`.
local function check_endpoints(field, value)
  local list = endpoint_list(value)
  if #list == 0 then
    return check.invalid(WHERE, field, value, "host:port")
  elseif #list > 1 then
    local wanted = "one endpoint: several are not supported yet"
    return check.invalid(WHERE, field, table.concat(list, ","), wanted)
  elseif list[1]:find("^https:") or list[1]:find("^unix") then
    local wanted = "http://host:port: TLS and unix sockets are not supported yet"
    return check.invalid(WHERE, field, list[1], wanted)
  elseif list[1]:find("%z") then
    return check.invalid(WHERE, field, list[1], "host:port")
  end
  return list[1]
end

local function endpoint_of(opts)
  if opts.endpoints ~= nil then
    return check_endpoints("endpoints", opts.endpoints)
  end
  for name, what in pairs(ENV_NOT_YET) do
    if os.getenv(name) then
      local text = "%s: the variable %s is set, but %s is not supported yet"
      return nil, text:format(WHERE, name, what), "invalid"
    end
  end
  local variable = os.getenv("ETCDCTL_ENDPOINTS")
  if variable and variable ~= "" then
    return check_endpoints("ETCDCTL_ENDPOINTS", variable)
  end
  return DEFAULT_ENDPOINT
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

--- connect's options, checked and completed | nil, message, code.
function M.read(opts)
  for field, what in pairs(type(opts) == "table" and NOT_YET or {}) do
    if opts[field] ~= nil then
      check.raise(string.format("%s: option %s: %s is not supported yet", WHERE, field, what))
    end
  end
  opts = check.types(WHERE, opts, CONNECT)
  check_endpoint_types(opts.endpoints)
  local ttl = opts.ttl or TTL_DEFAULT
  if not check.is_within(ttl, TTL_MIN, TTL_MAX) then
    return check.invalid(WHERE, "ttl", ttl, TTL_MIN .. " to " .. TTL_MAX .. " seconds")
  end
  if opts.timeout and not check.is_within(opts.timeout, 0, math.huge) then
    return check.invalid(WHERE, "timeout", opts.timeout, "0 or more seconds")
  end
  local prefix = opts.prefix or ""
  if #prefix >= NAME_MAX or prefix:find("%z") then
    return check.invalid(WHERE, "prefix", prefix, "less than " .. NAME_MAX .. " bytes, no NUL")
  end
  local endpoint, message, code = endpoint_of(opts)
  if not endpoint then
    return nil, message, code
  end
  return {
    endpoint = endpoint,
    endpoint_from = opts.endpoints ~= nil and "endpoints" or "ETCDCTL_ENDPOINTS",
    ttl = ttl,
    timeout = opts.timeout,
    prefix = prefix,
  }
end

return M
