-- An error in an on_lost handler of one lock ended the call before the handlers of other lost locks
-- had run. If the program made no further call, these handlers never ran.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local LOCKS = 5
local client, locks, calls

-- Registers two handlers for each lock. Each handler raises an error with its number.
before_each(function()
  client = clients.connector { endpoints = etcd:endpoints(), prefix = prefix, ttl = 60 } ()
  locks, calls = {}, {}
  for i = 1, LOCKS do locks[i] = assert(client:lock("a" .. i)) end
  for i = 1, 2 * LOCKS do
    locks[(i + 1) % LOCKS + 1]:on_lost(function()
      calls[#calls + 1] = i
      error({ i })
    end)
  end
end)

after_each(clients.close_all)

local function lose_all()
  for _, lock in ipairs(locks) do assert.is_true(lock:expire(0.01)) end
  wait.sleep(0.02)
end

-- Asserts that |call| raises the error of the first handler, and that each handler has run once.
local function assert_raises_first(call, ...)
  local ok, caught = pcall(call, ...)
  assert.is_false(ok)
  assert.equal(calls[1], caught[1])
  table.sort(calls)
  assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, calls)
end

it("regression 062: all handlers of all lost locks run in a call of held", function()
  lose_all()
  assert_raises_first(locks[3].held, locks[3])
  for _, lock in ipairs(locks) do assert.same({ false, "lost" }, { lock:held() }) end
end)

it("regression 062: all handlers of all lost locks run in a call of lock", function()
  lose_all()
  assert_raises_first(client.lock, client, "b")
  assert.is_true(assert(client:lock "b"):unlock())
end)

it("regression 062: all handlers of all lost locks run in wait_lost", function()
  etcd:revoke(locks[1]:lease())
  for _, lock in ipairs(locks) do
    wait.eventually(function() return not lock._core:left() end, 5, "its loss")
  end
  assert_raises_first(locks[1].wait_lost, locks[1], 5)
end)

it("regression 062: the handlers run in the order in which their locks were first watched",
  function()
    lose_all()
    assert.is_false(pcall(client.lock, client, "b"))
    assert.same({ 1, 6, 2, 7, 3, 8, 4, 9, 5, 10 }, calls)
  end)
