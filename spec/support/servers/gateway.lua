-- Reads and changes etcd through its JSON gateway, without starting etcdctl.

local json = require "dkjson"
local http = require "socket.http"
local ltn12 = require "ltn12"
local mime = require "mime"
local wait = require "spec.support.harness.wait"

local Gateway = {}
Gateway.__index = Gateway

-- Returns a gateway that calls the plain HTTP address url(), as |user| ("name:password") if |user|
-- is not nil.
function Gateway.new(url, user)
  return setmetatable({ url = url, user = user }, Gateway)
end

-- Posts |request| to |path|. Returns the HTTP status and the body; nil and a message if there was
-- no answer.
local function post(self, path, request)
  local body, answer = next(request) and json.encode(request) or "{}", {}
  local _, status = http.request {
    url = self.url() .. path,
    method = "POST",
    headers = { ["content-length"] = #body, authorization = self.token },
    source = ltn12.source.string(body),
    sink = ltn12.sink.table(answer),
  }
  return tonumber(status), table.concat(answer) .. (tonumber(status) and "" or tostring(status))
end

local function authenticate(self)
  local name, password = self.user:match "^([^:]+):(.*)$"
  self.token = nil
  local _, body = post(self, "/v3/auth/authenticate", { name = name, password = password })
  self.token = body:match '"token":"([^"]+)"'
end

-- Calls |path| with |request|, and returns the answer. If there is no answer, or its status is 500
-- or higher, the call is repeated. If the status is 401, it is repeated with a new token. Any other
-- failure is an error.
function Gateway:call(path, request)
  local answer
  wait.eventually(function()
    if self.user and not self.token then authenticate(self) end
    local status, body = post(self, path, request)
    if status == 401 then self.token = nil end
    if status and status ~= 200 and status ~= 401 and status < 500 then
      error(path .. ": " .. body, 0)
    end
    answer = status == 200 and json.decode(body)
    return answer, body
  end, 10, path)
  return answer
end

-- Returns the end of the range of keys that start with |prefix|.
local function range_end(prefix)
  return prefix == "" and "\0"
    or prefix:sub(1, -2) .. string.char(prefix:byte(-1) + 1)
end

local function range_of(key, is_prefix)
  return {
    key = mime.b64(key == "" and "\0" or key),
    range_end = is_prefix and mime.b64(range_end(key)) or nil,
  }
end

-- Returns a list of keys with their values and revisions: only |key|; or, if |is_prefix|, all keys
-- that start with |key|.
function Gateway:range(key, is_prefix)
  local kvs = self:call("/v3/kv/range", range_of(key, is_prefix)).kvs or {}
  for _, kv in ipairs(kvs) do
    kv.key, kv.value = mime.unb64(kv.key), kv.value and mime.unb64(kv.value) or ""
    kv.create_revision = tonumber(kv.create_revision)
  end
  return kvs
end

-- Deletes |key|; or, if |is_prefix|, all keys that start with |key|.
function Gateway:delete(key, is_prefix)
  self:call("/v3/kv/deleterange", range_of(key, is_prefix))
end

-- Sets |key| to |value|, and attaches it to |lease| (hex) if that is not nil.
function Gateway:put(key, value, lease)
  self:call("/v3/kv/put", {
    key = mime.b64(key),
    value = mime.b64(value),
    lease = lease and Gateway.to_decimal(lease),
  })
end

local TXN_OPS_MAX = 128 -- etcd's default limit

-- Puts an empty value for each of |keys|, attached to |lease| (hex), with few requests.
function Gateway:put_all(keys, lease)
  local id = Gateway.to_decimal(lease)
  for first = 1, #keys, TXN_OPS_MAX do
    local puts = {}
    for i = first, math.min(first + TXN_OPS_MAX - 1, #keys) do
      puts[#puts + 1] = { request_put = { key = mime.b64(keys[i]), lease = id } }
    end
    self:call("/v3/kv/txn", { success = puts })
  end
end

-- Returns the revision of the store.
function Gateway:revision()
  return tonumber(self:call("/v3/kv/range", range_of "-").header.revision)
end

-- ---- leases -------------------------------------------------------------------

-- Converts the number |text| of any length from base |from| to base |to|. Lua 5.1 has no 64-bit
-- integers.
local function convert(text, from, to)
  local digits = {} -- of the result, the lowest first
  for digit in text:gmatch "%x" do
    local carry = tonumber(digit, 16)
    for i = 1, #digits do
      carry = carry + digits[i] * from
      digits[i], carry = carry % to, math.floor(carry / to)
    end
    while carry > 0 do
      digits[#digits + 1], carry = carry % to, math.floor(carry / to)
    end
  end
  for i, digit in ipairs(digits) do digits[i] = ("%x"):format(digit) end
  return table.concat(digits):reverse()
end

-- Converts a lease ID from hex, which etcdctl and etcdlock use, to decimal, which the gateway uses.
function Gateway.to_decimal(id)
  return convert(id, 16, 10)
end

-- Returns the IDs of all leases as hex numbers.
function Gateway:leases()
  local ids = {}
  for i, lease in ipairs(self:call("/v3/lease/leases", {}).leases or {}) do
    ids[i] = convert(lease.ID, 10, 16)
  end
  return ids
end

-- Creates a lease with a TTL of |ttl| seconds and returns its ID as a hex number. |id| is the ID to
-- use, in hex; nil: etcd chooses one.
function Gateway:grant(ttl, id)
  local request = { TTL = ttl, ID = id and Gateway.to_decimal(id) }
  return convert(self:call("/v3/lease/grant", request).ID, 10, 16)
end

-- Raises an error if there is no such lease.
function Gateway:revoke(id)
  self:call("/v3/lease/revoke", { ID = Gateway.to_decimal(id) })
end

return Gateway
