-- A try was cancelled while its request about the holder's lease was in flight. The answer reached
-- the next waiter instead. This waiter failed with "locked", but its key stayed in the queue.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = suite.endpoints(), prefix = prefix, ttl = 30 }
local granted = clients.granted

after_each(clients.close_all)

it("regression 067: a waiter is not told the result of a try that was given up", function()
  local client, other = connect(), connect { elsewhere = true, lock_delay = 5 }
  for _ = 1, 20 do
    local held = assert(other:lock "a")
    local try = assert(client:lock_async("a", { timeout = 0, owner = "try" }))
    local pending = assert(client:lock_async("a", { timeout = 30, owner = "waiter" }))
    for _ = 1, math.random(0, 3) do try:step() end
    try:cancel()
    for _ = 1, 50 do
      local lock, message, code = pending:step()
      assert.is_false(lock, tostring(code) .. ": " .. tostring(message))
    end
    assert.is_true(held:unlock())
    assert.is_true(granted(pending):unlock())
    assert.same({}, etcd:keys(prefix .. "a/"))
  end
end)

it("regression 067: a try sends one request, also if a holder with a lock delay crashed", function()
  local client, other = connect(), connect { elsewhere = true, lock_delay = 5 }
  local held = assert(other:lock "b")
  local before = client:stats()
  local lock, _, code = client:try_lock "b"
  assert.is_nil(lock)
  assert.equal("locked", code)
  assert.equal(before.tries + 1, client:stats().tries)
  assert.equal(before.audits, client:stats().audits)
  assert.is_true(held:unlock())
end)
