-- The shop: the code that needs the lock. The same code runs in both stages: worker.lua calls it in
-- blocking Lua, nginx.conf calls it in nginx.
--
-- Its environment: STOCK is the file with the number of items that are left, SHOP_ETCD is the
-- address of etcd, and SHOP_TTL is the TTL in seconds.

local etcdlock = require "etcdlock"

local sleep = ngx and ngx.sleep or require("socket").sleep
local get_pid = ngx and ngx.worker.pid or require("luv").os_getpid

local M = {}

local STOCK, TTL = os.getenv "STOCK", tonumber(os.getenv "SHOP_TTL")

-- If a worker is killed, the lock stays taken until its TTL is over. `timeout` is longer than that.
local client = assert(etcdlock.connect {
  endpoints = os.getenv "SHOP_ETCD", ttl = TTL, timeout = TTL + 30, env = false,
})

local function read_number(path)
  local file = io.open(path)
  local number = file and tonumber(file:read "*l")
  if file then file:close() end
  return number
end

-- Overwrites the number in the file. It always has five characters, so that no other worker reads
-- half of a number.
local function write_stock(items)
  local file = assert(io.open(STOCK, "r+"))
  file:write(("%5d\n"):format(items))
  file:close()
end

-- Waits for the payment. If the file STOCK.stuck contains the number of this item, the payment
-- takes 60 s: the worker is killed before. This applies to one worker, the one that removes the
-- file.
local function await_payment(items)
  local is_stuck = read_number(STOCK .. ".stuck") == items and os.remove(STOCK .. ".stuck")
  sleep(is_stuck and 60 or 0.002)
end

-- Sells one item. This is correct only if nobody else sells between the read and the write.
local function sell()
  local items = read_number(STOCK)
  if items == 0 then
    return "sold out"
  end
  await_payment(items)
  write_stock(items - 1)
  return ("sold %d by %d"):format(items, get_pid())
end

function M.without_lock()
  local answer = sell() -- without the lock
  return answer
end

-- While this call waits for the lock in nginx, the worker serves other requests.
function M.with_lock()
  local ok, answer, code = client:with_lock("stock/1001", sell) -- with the lock
  return ok and answer or ("error: %s (%s)"):format(answer, code)
end

return M
