-- While a permit of a semaphore was held or waited for with one n, each call with another n failed
-- with "conflict". So a new version of a program could not start beside the old one.
-- Needs: one plain member.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix }
local assert_fails, assert_wait = clients.assert_fails, clients.assert_wait
local granted = clients.granted
local client, three, five

before_each(function()
  client = connect()
  three = assert(client:semaphore("pool", 3))
  five = assert(connect { elsewhere = true }:semaphore("pool", 5))
end)

after_each(clients.close_all)

local function take(semaphore, n)
  local locks = {}
  for i = 1, n do locks[i] = assert(semaphore:lock { timeout = 10, owner = {} }) end
  return locks
end

-- Starts a wait. Returns when its key, the |nth| of all keys, is in etcd.
local function ask(semaphore, nth)
  local asked = assert(semaphore:lock_async { owner = {} })
  etcd:await_keys(prefix, nth)
  return asked
end

local function unlock_all(locks)
  for _, lock in ipairs(locks) do assert.is_true(lock:unlock()) end
  assert.same({}, etcd:keys(prefix))
end

it("regression 095: programs with n = 3 and n = 5 hold 5 permits together, and not more", function()
  local locks = take(three, 3)
  assert.same({ 0, 2 }, { three:available(), five:available() })
  for _, lock in ipairs(take(five, 2)) do locks[#locks + 1] = lock end
  assert.equal(0, five:available())
  assert_fails("locked", three:try_lock { owner = {} })
  assert_fails("locked", five:try_lock { owner = {} })
  -- The first wait is queued in its client, so it adds no key.
  assert_wait(assert(three:lock_async { owner = {} }), ask(five, 6))
  for _, lock in ipairs(locks) do assert.is_true(lock:check()) end
end)

it("regression 095: the smaller n waits until fewer than that many are before it", function()
  local locks = take(five, 5)
  local asked = ask(three, 6)
  for _ = 1, 2 do
    assert.is_true(table.remove(locks):unlock())
    assert_wait(asked)
  end
  assert.is_true(table.remove(locks):unlock())
  locks[#locks + 1] = granted(asked)
  unlock_all(locks)
end)

it("regression 095: the larger n is granted before an older waiter with the smaller n", function()
  local locks = take(five, 3)
  local asked = ask(three, 4)
  locks[#locks + 1] = take(five, 1)[1]
  assert.is_true(locks[4]:held())
  assert_wait(asked)
  assert.is_true(table.remove(locks, 1):unlock())
  locks[#locks + 1] = granted(asked)
  unlock_all(locks)
end)

it("regression 095: one client may name several numbers, also for tries", function()
  local one = assert(client:semaphore("pool", 1))
  local locks = take(three, 1)
  assert_fails("locked", one:try_lock { owner = {} })
  local asked = ask(one, 2)
  assert_wait(asked)
  locks[#locks + 1] = assert(three:try_lock { owner = {} })
  assert.is_true(table.remove(locks, 1):unlock())
  locks[#locks + 1] = granted(asked)
  unlock_all(locks)
end)

it("regression 095: client:queue and break_lock tell holders by the n of each entry", function()
  local locks = take(five, 3)
  local asked = ask(three, 4)
  locks[#locks + 1] = take(five, 1)[1]
  local places = assert(client:queue "pool")
  local held = {}
  for i, place in ipairs(places) do held[i] = place.held end
  assert.same({ true, true, true, false, true }, held)
  assert_fails("not_held", client:break_lock("pool", places[4].token))
  assert.is_true(client:break_lock("pool", places[1].token))
  assert.equal("deleted", table.remove(locks, 1):wait_lost(5))
  locks[#locks + 1] = granted(asked)
  unlock_all(locks)
end)
