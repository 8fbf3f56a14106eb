-- Three tellers transfer money between three accounts, in a ring. If each teller locked first one
-- account and then the next one, the three would soon wait for each other: a deadlock. A multi_lock
-- takes the locks of both accounts in one call, without a deadlock. A receipt in the same txn makes
-- it safe to repeat a transfer.

local etcdlock = require "etcdlock"
local start = require "examples.start"
local uv = require "luv"

local ACCOUNTS = { "account/anna", "account/ben", "account/carl" }
local client = assert(etcdlock.connect { timeout = 30 })

-- Transfers money once, however often it is called with the same `id`.
local function transfer(id, from, to, amount)
  return client:with_multi_lock({ from, to }, function(lock)
    if assert(lock:get("receipt/" .. id, "none")) ~= "none" then return true end -- done before
    local has, gets = tonumber(assert(lock:get(from, 0))), tonumber(assert(lock:get(to, 0)))
    return has >= amount and assert(lock:txn { -- writes all keys; or none, if the lock was lost
      { "put", from, ("%d"):format(has - amount) },
      { "put", to, ("%d"):format(gets + amount) },
      { "put", "receipt/" .. id, "done" },
    })
  end)
end

-- Repeats a transfer that has failed: etcd may have applied it, and then there is a receipt.
local function transfer_surely(...)
  local ran, ok, result
  for _ = 1, 3 do
    ran, ok, result = pcall(transfer, ...)
    if ran and ok then return result end
  end
  error(ran and result or ok)
end

if arg[1] then
  local from, to, amount, done, time = arg[1], arg[2], tonumber(arg[3]), 0, os.time()
  for n = 1, 20 do
    local id = ("%d/%s/%d"):format(time, from, n) -- elsewhere the number of an order
    if transfer_surely(id, from, to, amount) then done = done + 1 end
  end
  print(("%d of 20 transfers of %d from %s to %s"):format(done, amount, from, to))
else
  assert(client:with_multi_lock(ACCOUNTS, function(lock)
    for _, account in ipairs(ACCOUNTS) do assert(lock:put(account, "100")) end
  end))
  for i = 1, 3 do start(ACCOUNTS[i], ACCOUNTS[i % 3 + 1], 10 * i) end -- each runs this file
  uv.run() -- until all three have ended
  for _, account in ipairs(ACCOUNTS) do
    assert(client:with_lock(account, function(lock)
      print(account, assert(lock:get(account, 0)))
    end))
  end
end
client:close()
