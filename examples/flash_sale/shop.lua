-- One worker of a shop: plain blocking Lua that serves one customer after the other.
-- flash_sale.lua starts it:
--
--   lua shop.lua PORT STOCK_FILE [ETCD TTL [STUCK_AT]]      without ETCD there is no lock
--
-- A customer sends "buy". The answer is "sold NUMBER by PID", where NUMBER is the number of items
-- before this sale, or "sold out", or "error: ...". The customer who comes when STUCK_AT items are
-- left never pays.

local etcdlock = require "etcdlock"
local socket = require "socket"
local uv = require "luv"

local port, stock_file, endpoint, ttl, stuck_at = ...

-- ---- the shop -----------------------------------------------------------------

local function read_stock()
  local file = assert(io.open(stock_file))
  local items = tonumber(file:read "*l")
  file:close()
  return items
end

-- Overwrites the number in the file. It always has five characters, so that no other worker reads
-- half of a number.
local function write_stock(items)
  local file = assert(io.open(stock_file, "r+"))
  file:write(("%5d\n"):format(items))
  file:close()
end

local function say(line)
  print(line)
  io.stdout:flush()
end

-- Waits for the payment. When STUCK_AT items are left, the payment never comes, but only for the
-- one worker that can remove the file STOCK_FILE.stuck.
local function await_payment(items)
  if items == tonumber(stuck_at) and os.remove(stock_file .. ".stuck") then
    say "stuck"
    socket.sleep(60)
  end
  socket.sleep(0.002)
end

-- Sells one item. This is correct only if no other worker sells between the read and the write.
local function sell()
  local items = read_stock()
  if items == 0 then
    return "sold out"
  end
  await_payment(items)
  write_stock(items - 1)
  return ("sold %d by %d"):format(items, uv.os_getpid())
end

-- ---- the lock: one worker at a time calls sell --------------------------------

-- If a worker is killed, the lock stays taken until its TTL is over. `timeout` is longer than that.
local client = endpoint and assert(etcdlock.connect {
  endpoints = endpoint, timeout = ttl + 30, ttl = tonumber(ttl), env = false,
})

local function serve()
  local ok, answer, code = true, sell() -- without the lock
  return ok and answer or code
end

local function serve_locked()
  local ok, answer, code = client:with_lock("stock/1001", sell) -- with the lock
  return ok and answer or ("error: %s (%s)"):format(answer, code)
end

-- ---- the counter --------------------------------------------------------------

if client then serve = serve_locked end

local counter = assert(socket.tcp4())
assert(counter:setoption("reuseport", true)) -- shared with the shop's other workers
assert(counter:bind("127.0.0.1", port))
assert(counter:listen(1024))
say "ready"

while true do
  local customer = assert(counter:accept())
  if customer:receive() == "buy" then
    customer:send(serve() .. "\n")
  end
  customer:close()
end
