-- The hard end of a hold: max_hold, and expire, which moves it.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
-- A long lease: a renewal has nothing to do with it.
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix, ttl = 60 }
local assert_fails = clients.assert_fails
local client, other

before_each(function()
  client, other = connect(), connect { elsewhere = true }
end)

after_each(clients.close_all)

describe("max_hold", function()
  it("ends a hold, whoever else wants it or not", function()
    local lock = assert(client:lock("a", { max_hold = 0.4 }))
    local held, left = lock:held()
    assert.is_true(held)
    assert.is_true(left <= 0.4, left)
    assert.is_true(lock:remaining() <= 0.4)
    assert.equal("max_hold", lock:wait_lost(5))
    assert.matches("max_hold", assert_fails("lost", lock:check()), 1, true)
    assert.matches("max_hold", assert_fails("lost", lock:unlock()), 1, true)
    etcd:await_keys(prefix, 0)
  end)

  it("is over on the dot for its holder, before anybody else can have it", function()
    local lock = assert(client:lock("a", { max_hold = 0.3 }))
    local waiter = assert(other:lock("a", { timeout = 5 }))
    assert.same({ false, "lost" }, { lock:held() })
    assert.is_true(waiter:token() > lock:token())
    assert.is_true(waiter:check())
  end)

  -- By the holder's own clock: the thread that ends it may be late.
  it("is over for whoever asks as soon as no time is left", function()
    for _ = 1, 50 do
      local lock = assert(client:lock("a", { max_hold = 0.02, timeout = 5 }))
      local held, left
      repeat
        held, left = lock:held()
        assert.is_true(not held or left > 0, left)
      until not held
      assert.equal("max_hold", lock:wait_lost(0))
    end
  end)

  it("doesn't outlast itself because the holder asks again", function()
    local lock = assert(client:lock("a", { max_hold = 0.4 }))
    local from = wait.now()
    assert.equal(lock, client:lock("a", { max_hold = 60 }))
    wait.eventually(function() return not lock:held() end)
    assert.is_true(wait.now() - from < 0.4 + wait.SLACK)
  end)

  it("doesn't matter to a hold that ends before", function()
    local lock = assert(client:lock("a", { max_hold = 0.2 }))
    assert.is_true(lock:unlock())
    local again = assert(client:lock("a"))
    wait.sleep(0.4)
    assert.is_true(again:check())
    assert.same({ false, "not_held" }, { lock:held() })
  end)

  it("may be longer than a lease, which is then renewed until it is over", function()
    local short = connect { ttl = 4 }
    assert(short:lock "before"):unlock() -- which has had to connect first, and to ask for a lease
    local asked = wait.now()
    local lock = assert(short:lock("a", { max_hold = 5 }))
    local had = wait.now()
    assert.equal("max_hold", lock:wait_lost(10))
    local over = wait.now()
    assert.is_true(over - asked > 4.8, over - asked)
    assert.is_true(over - had < 5 + wait.SLACK, over - had)
  end)

  it("may be as short as it gets", function()
    for i = 1, 50 do
      local lock = client:lock("a", { max_hold = i < 5 and 0.0001 or 0.001, timeout = 5 })
      if lock then
        lock:wait_lost(5)
        assert.same({ false, "lost" }, { lock:held() })
      end
    end
    etcd:await_keys(prefix, 0)
  end)
end)

describe("expire", function()
  it("moves the end of a hold, to and fro, and as often as one likes", function()
    local lock = assert(client:lock("a", { max_hold = 60 }))
    for _ = 1, 3 do
      assert.is_true(lock:expire(0.1))
      assert.is_true(lock:expire(30))
    end
    assert.is_true(lock:remaining() > 1)
    wait.sleep(0.3)
    assert.is_true(lock:check())
    local asked = assert(other:lock_async("a", { timeout = 5 }))
    wait.eventually(function() return #client:queue "a" == 2 end)
    assert.is_true(lock:expire(0.3))
    -- Nobody asks the lock itself, which would find out by its clock.
    wait.eventually(function() return asked:dirty() end, 3, "the next one's turn")
    local next_one, message = asked:step()
    assert.is_truthy(next_one, message)
    assert.same({ false, "lost" }, { lock:held() })
    assert.equal("max_hold", lock:wait_lost(0))
    assert.is_true(next_one:unlock())
  end)
end)
