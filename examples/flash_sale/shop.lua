-- One worker of a shop: plain blocking Lua that serves one customer after the
-- other. Started by flash_sale.lua:
--
--   lua shop.lua PORT STOCK_FILE [ETCD]      without ETCD there is no lock

local etcdlock = require "etcdlock"
local socket = require "socket"

local port, stock_file, endpoint = ...

-- ---- the shop -----------------------------------------------------------------

local function read_stock()
  local file = assert(io.open(stock_file))
  local items = tonumber(file:read "*l")
  file:close()
  return items
end

-- In place: the number always has its five digits, nobody reads half of it.
local function write_stock(items)
  local file = assert(io.open(stock_file, "r+"))
  file:write(("%5d\n"):format(items))
  file:close()
end

-- Right as long as nobody else does the same between the read and the write.
local function sell()
  local items = read_stock()
  if items == 0 then
    return "sold out"
  end
  socket.sleep(0.002) -- the customer pays
  write_stock(items - 1)
  return "sold"
end

-- ---- the lock: the same, by one worker at a time ------------------------------

local client = endpoint and assert(etcdlock.connect {
  endpoints = endpoint, timeout = 30, env = false,
})

local function sell_locked()
  local ok, answer, code = client:with_lock("stock/1001", sell)
  return ok and answer or ("error: %s (%s)"):format(answer, code)
end

-- ---- the counter --------------------------------------------------------------

local serve = client and sell_locked or sell

local counter = assert(socket.tcp4())
assert(counter:setoption("reuseport", true)) -- shared with the shop's other workers
assert(counter:bind("127.0.0.1", port))
assert(counter:listen(1024))
print "ready"
io.stdout:flush()

while true do
  local customer = assert(counter:accept())
  if customer:receive() == "buy" then
    customer:send(serve() .. "\n")
  end
  customer:close()
end
