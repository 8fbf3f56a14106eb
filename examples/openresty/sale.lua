-- Sells an item to a customer. The stock is in Redis, and two services with several workers each
-- sell from it. nginx.conf calls M.without_lock or M.with_lock.

local etcdlock = require "etcdlock"
local redis = require "redis"

local M = {}

-- Sells one item. This is correct only if no other request sells between GET and SET. Without a
-- lock, other requests do, because each of the two commands takes a round trip to Redis.
local function sell()
  local stock = tonumber(redis("GET", "stock"))
  if stock <= 0 then
    return "sold out"
  end
  redis("SET", "stock", stock - 1)
  redis("LPUSH", "orders", ngx.var.request_id)
  return "sold"
end

function M.without_lock()
  local answer = sell() -- without the lock
  ngx.say(answer)
end

-- Calls sell for only one request of all services at a time. etcdlock reads the addresses of etcd
-- from ETCDCTL_ENDPOINTS. While one request waits for the lock, the worker serves other requests.
function M.with_lock()
  local ok, answer, code = etcdlock.with_lock("stock/1001", { timeout = 30 }, sell) -- with the lock
  if not ok then
    ngx.log(ngx.ERR, "not sold: ", answer, " (", code, ")")
    return ngx.exit(ngx.HTTP_SERVICE_UNAVAILABLE)
  end
  ngx.say(answer)
end

return M
