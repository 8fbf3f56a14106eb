-- Three tellers transfer money, each from one account to the next, in a ring. With one lock
-- after the other they would soon all wait; a multi_lock takes both accounts' at once.

local etcdlock = require "etcdlock"
local start = require "examples.start"
local uv = require "luv"

local ACCOUNTS = { "account/anna", "account/ben", "account/carl" }
local client = assert(etcdlock.connect { timeout = 30 })

local function transfer(from, to, amount)
  return client:with_multi_lock({ from, to }, function(lock)
    local has, gets = tonumber((lock:get(from))), tonumber((lock:get(to)))
    return has >= amount and assert(lock:txn { -- both, or none if we lost the lock
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
  for i = 1, 3 do start(ACCOUNTS[i], ACCOUNTS[i % 3 + 1], 10 * i) end -- this file again
  uv.run() -- until all three have ended
  for _, account in ipairs(ACCOUNTS) do
    assert(client:with_lock(account, function(lock) print(account, (lock:get(account))) end))
  end
end
client:close()
