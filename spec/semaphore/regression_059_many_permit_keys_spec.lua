-- The client counted the older permit keys of a semaphore in 16 bits: behind 65,536 of them it
-- counted none and took a permit. It only counts so many if it has to list the whole queue, that
-- is, if the oldest keys below the name are not permit keys.

local clients = require "spec.support.harness.clients"
local mime = require "mime"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()
local PERMIT = prefix .. "pool/permit/"
-- More keys than a client lists of a semaphore with one permit before it asks for all.
local OTHERS = 40
local AHEAD, AT_ONCE = 65536, 8192

local etcd, client

-- Puts one key for each of |list| with |lease| in one transaction.
local function put_all(list, lease)
  local puts = {}
  for i, key in ipairs(list) do
    puts[i] = { requestPut = { key = mime.b64(key), value = mime.b64 "x", lease = lease } }
  end
  etcd.gateway:call("/v3/kv/txn", { success = puts })
end

setup(function()
  etcd = suite.start { args = { "--max-txn-ops", tostring(AT_ONCE) } }
  local others, lease = {}, etcd:grant(600)
  for i = 1, OTHERS do others[i] = PERMIT .. "other" .. i end
  put_all(others)
  for first = 1, AHEAD, AT_ONCE do
    local permits = {}
    for i = 1, AT_ONCE do permits[i] = ("%s%s-%x.1"):format(PERMIT, lease, first + i - 1) end
    put_all(permits, etcd.gateway.to_decimal(lease))
  end
  client = clients.connector { endpoints = etcd:endpoints(), prefix = prefix } {}
end)

teardown(function()
  clients.close_all()
  etcd:stop()
end)

it("regression 059: try_lock behind 65,536 permit keys finds the semaphore locked", function()
  local pool = assert(client:semaphore("pool", 1))
  local answer
  wait.eventually(function() -- on a busy machine the long list takes longer than a try
    answer = { pool:try_lock { owner = "try" } }
    return answer[3] ~= "unavailable" and answer[3] ~= "timeout", answer[2]
  end, 5, "an answer to a try")
  clients.assert_fails("locked", (table.unpack or unpack)(answer))
end)

it("regression 059: lock behind 65,536 permit keys waits", function()
  local before = client:stats().watches
  local pending = assert(assert(client:semaphore("pool", 1)):lock_async { owner = "lock" })
  local lock
  wait.eventually(function()
    lock = pending:step()
    return lock or client:stats().watches > before
  end, 5, "a grant, or a watch of the older keys")
  assert.is_false(lock)
  clients.assert_wait(pending)
end)
