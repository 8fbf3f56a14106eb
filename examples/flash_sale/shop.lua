-- One worker of a shop: plain blocking Lua that serves one customer after the
-- other. Started by flash_sale.lua:
--
--   lua shop.lua PORT STOCK_FILE [ETCD TTL [STUCK_AT]]      without ETCD there is no lock
--
-- A customer says "buy", and is told "sold NUMBER by PID", where NUMBER were left
-- before, "sold out" or "error: ...". Who comes when STUCK_AT are left never pays.

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

-- In place: the number always has its five digits, nobody reads half of it.
local function write_stock(items)
  local file = assert(io.open(stock_file, "r+"))
  file:write(("%5d\n"):format(items))
  file:close()
end

local function say(line)
  print(line)
  io.stdout:flush()
end

-- Who takes the file away is the one who waits in vain.
local function await_payment(items)
  if items == tonumber(stuck_at) and os.remove(stock_file .. ".stuck") then
    say "stuck"
    socket.sleep(60)
  end
  socket.sleep(0.002)
end

-- Right as long as nobody else does the same between the read and the write.
local function sell()
  local items = read_stock()
  if items == 0 then
    return "sold out"
  end
  await_payment(items)
  write_stock(items - 1)
  return ("sold %d by %d"):format(items, uv.os_getpid())
end

-- ---- the lock: the same, by one worker at a time ------------------------------

-- A worker that is killed keeps the lock for its TTL.
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
