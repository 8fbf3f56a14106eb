-- Three tellers transfer money between three accounts, in a ring. If each teller locked first one
-- account and then the next one, the three would soon wait for each other: a deadlock. A multi_lock
-- takes the locks of both accounts in one call, without a deadlock.

local etcdlock = require "etcdlock"
local start = require "examples.start"
local uv = require "luv"

local ACCOUNTS = { "account/anna", "account/ben", "account/carl" }
local client = assert(etcdlock.connect { timeout = 30 })

local function transfer(from, to, amount)
  return client:with_multi_lock({ from, to }, function(lock)
    local has, gets = tonumber(assert(lock:get(from))), tonumber(assert(lock:get(to)))
    return has >= amount and assert(lock:txn { -- writes both keys; or none, if the lock was lost
      { "put", from, ("%d"):format(has - amount) },
      { "put", to, ("%d"):format(gets + amount) },
    })
  end)
end

if arg[1] then
  local from, to, amount, done = arg[1], arg[2], tonumber(arg[3]), 0
  for _ = 1, 20 do
    local _, had_enough = assert(transfer(from, to, amount))
    if had_enough then done = done + 1 end
  end
  print(("%d of 20 transfers of %d from %s to %s"):format(done, amount, from, to))
else
  assert(client:with_multi_lock(ACCOUNTS, function(lock)
    for _, account in ipairs(ACCOUNTS) do assert(lock:put(account, "100")) end
  end))
  for i = 1, 3 do start(ACCOUNTS[i], ACCOUNTS[i % 3 + 1], 10 * i) end -- run this file
  uv.run() -- until all three have ended
  for _, account in ipairs(ACCOUNTS) do
    assert(client:with_lock(account, function(lock) print(account, lock:get(account)) end))
  end
end
client:close()
