--- What callers may ask for: every option's type, range and default.
-- A wrong type or an unknown name is a mistake in the program and raises; a
-- value that can't work is answered with nil, message, "invalid". Both name
-- the option and the value.
local M = {}

local NAME_MAX = require("etcdlock.core").NAME_MAX

local TTL_MIN, TTL_MAX, TTL_DEFAULT = 2, 300, 10

--- An option's value as it is shown in a message.
local function show(value)
  if type(value) == "string" then
    return string.format("%q", #value > 60 and value:sub(1, 60) .. "..." or value)
  end
  return tostring(value)
end

local function invalid(where, field, value, wanted)
  return nil, string.format("%s: %s = %s, wanted %s", where, field, show(value), wanted), "invalid"
end

--- Raises unless opts is a table (or nil) whose fields are all in `known`,
-- which maps names to a type name or to a function(value) -> ok, wanted.
local function check_types(where, opts, known, level)
  if opts == nil then
    return {}
  end
  if type(opts) ~= "table" then
    error(string.format("%s: options are a table, got %s", where, type(opts)), level)
  end
  for field, value in pairs(opts) do
    local wanted = known[field]
    if wanted == nil then
      error(string.format("%s: unknown option %s", where, show(field)), level)
    elseif wanted ~= "any" and type(value) ~= wanted then
      local text = "%s: %s = %s, wanted a %s"
      error(text:format(where, tostring(field), show(value), wanted), level)
    end
  end
  return opts
end

local function is_number_in(value, low, high)
  return value >= low and value <= high -- false for NaN
end

-- ---- connect ----

local CONNECT = {
  endpoints = "any", -- string or list
  ttl = "number",
  timeout = "number",
  prefix = "string",
}

-- The design has a place for these; until they work they are refused by name.
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

local DEFAULT_ENDPOINT = "127.0.0.1:2379"

--- The list that `endpoints` stands for: a string may hold several, with commas.
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

--- One endpoint of option or variable `field`.
local function check_endpoints(where, field, value)
  local list = endpoint_list(value)
  if #list == 0 then
    return invalid(where, field, value, "host:port")
  elseif #list > 1 then
    return invalid(where, field, type(value) == "table" and table.concat(value, ",") or value,
      "one endpoint: several are not supported yet")
  elseif list[1]:find("^https:") or list[1]:find("^unix:") then
    return invalid(where, field, list[1],
      "http://host:port: TLS and unix sockets are not supported yet")
  elseif list[1]:find("%z") then
    return invalid(where, field, list[1], "host:port")
  end
  return list[1]
end

local function endpoint_of(where, opts)
  if opts.endpoints ~= nil then
    return check_endpoints(where, "endpoints", opts.endpoints)
  end
  for name, what in pairs(ENV_NOT_YET) do
    if os.getenv(name) then
      local text = "%s: the variable %s is set, but %s is not supported yet"
      return nil, text:format(where, name, what), "invalid"
    end
  end
  local variable = os.getenv("ETCDCTL_ENDPOINTS")
  if variable and variable ~= "" then
    return check_endpoints(where, "ETCDCTL_ENDPOINTS", variable)
  end
  return DEFAULT_ENDPOINT
end

local function check_endpoint_types(where, value, level)
  local kind = type(value)
  if kind == "table" then
    for i, one in ipairs(value) do
      if type(one) ~= "string" then
        error(string.format("%s: endpoints[%d] = %s, wanted a string", where, i, show(one)), level)
      end
    end
  elseif kind ~= "string" and kind ~= "nil" then
    error(string.format("%s: endpoints = %s, wanted a string or a list", where, show(value)), level)
  end
end

--- The options of connect: a table with endpoint, ttl, timeout and prefix.
function M.connect(opts)
  local where = "etcdlock.connect"
  for field, what in pairs(type(opts) == "table" and NOT_YET or {}) do
    if opts[field] ~= nil then
      error(string.format("%s: option %s: %s is not supported yet", where, field, what), 3)
    end
  end
  opts = check_types(where, opts, CONNECT, 4)
  check_endpoint_types(where, opts.endpoints, 4)
  local ttl = opts.ttl or TTL_DEFAULT
  if not is_number_in(ttl, TTL_MIN, TTL_MAX) then
    return invalid(where, "ttl", ttl, TTL_MIN .. " to " .. TTL_MAX .. " seconds")
  end
  if opts.timeout and not is_number_in(opts.timeout, 0, math.huge) then
    return invalid(where, "timeout", opts.timeout, "0 or more seconds")
  end
  local prefix = opts.prefix or ""
  if #prefix > NAME_MAX - 1 or prefix:find("%z") then
    return invalid(where, "prefix", prefix, "less than " .. NAME_MAX .. " bytes, no NUL")
  end
  local endpoint, message, code = endpoint_of(where, opts)
  if not endpoint then
    return nil, message, code
  end
  return { endpoint = endpoint, ttl = ttl, timeout = opts.timeout, prefix = prefix }
end

-- ---- lock ----

local LOCK = {
  timeout = "number",
  max_hold = "number",
  owner = "any",
  value = "string",
}

--- A lock's name with the client's prefix, or nil, message, "invalid".
function M.name(where, prefix, name, level)
  if type(name) ~= "string" then
    error(string.format("%s: name = %s, wanted a string", where, show(name)), level + 1)
  end
  local full = prefix .. name
  if name == "" or #full > NAME_MAX or full:find("%z") then
    return invalid(where, "name", name, "1 to " .. (NAME_MAX - #prefix) .. " bytes, no NUL")
  end
  return full
end

--- The options of a lock call: a table with timeout (else the given one),
-- max_hold, owner and value.
function M.lock(where, timeout, opts, level)
  opts = check_types(where, opts, LOCK, level + 2)
  timeout = opts.timeout or timeout
  if timeout and not is_number_in(timeout, 0, math.huge) then
    return invalid(where, "timeout", timeout, "0 or more seconds")
  end
  if opts.max_hold and not (opts.max_hold > 0 and opts.max_hold < math.huge) then
    return invalid(where, "max_hold", opts.max_hold, "more than 0 seconds")
  end
  if opts.value and #opts.value > 4096 then
    return invalid(where, "value", opts.value, "at most 4096 bytes")
  end
  if timeout == math.huge then
    timeout = nil
  end
  return { timeout = timeout, max_hold = opts.max_hold, owner = opts.owner, value = opts.value }
end

--- Raises unless `value` is a string.
function M.check_string(where, field, value, level)
  if type(value) ~= "string" then
    error(string.format("%s: %s = %s, wanted a string", where, field, show(value)), level + 1)
  end
end

--- Raises unless `value` is a function or can be called.
function M.check_function(where, field, value, level)
  local meta = getmetatable(value)
  if type(value) ~= "function" and not (type(meta) == "table" and meta.__call) then
    error(string.format("%s: %s = %s, wanted a function", where, field, show(value)), level + 1)
  end
end

--- Raises unless `value` is a number of at least 0, or nil where that is allowed.
function M.check_seconds(where, field, value, level)
  if value ~= nil and not (type(value) == "number" and value >= 0) then
    error(string.format("%s: %s = %s, wanted seconds", where, field, show(value)), level + 1)
  end
end

return M
