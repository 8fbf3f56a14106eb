-- What a service does for a customer. The stock is in Redis, and two services
-- with several workers each sell from it. nginx.conf calls one of the two
-- functions at the end.

local etcdlock = require "etcdlock"
local redis = require "redis"

local M = {}

-- Right as long as nobody else does the same between the GET and the SET: the way to Redis
-- and back is time enough for hundreds.
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

-- The same, by one request of all services at a time. etcdlock finds etcd by
-- ETCDCTL_ENDPOINTS; the other requests of this worker go on meanwhile.
function M.with_lock()
  local ok, answer, code = etcdlock.with_lock("stock/1001", { timeout = 30 }, sell) -- with the lock
  if not ok then
    ngx.log(ngx.ERR, "not sold: ", answer, " (", code, ")")
    return ngx.exit(ngx.HTTP_SERVICE_UNAVAILABLE)
  end
  ngx.say(answer)
end

return M
