-- Tests the option max_hold, which ends a hold after a fixed time, and expire, which moves its end.

-- A long lease: no keepalive happens during most tests.
client_options { ttl = 60 }

describe("max_hold", function()
  it("ends a hold and deletes its key, even if no other client waits", function()
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

  it("ends a hold before another client is granted the lock", function()
    local lock = assert(client:lock("a", { max_hold = 0.3 }))
    local waiter = assert(other:lock("a", { timeout = 5 }))
    assert.same({ false, "lost" }, { lock:held() })
    assert.is_true(waiter:token() > lock:token())
    assert.is_true(waiter:check())
  end)

  -- held compares the time by itself, because the I/O thread may end the hold later.
  it("makes held return false as soon as no time is left", function()
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

  it("is not extended by a reentrant call with a longer max_hold", function()
    local lock = assert(client:lock("a", { max_hold = 0.4 }))
    local from = wait.now()
    assert.equal(lock, client:lock("a", { max_hold = 60 }))
    wait.eventually(function() return not lock:held() end)
    assert.is_true(wait.now() - from < 0.4 + wait.SLACK)
  end)

  it("does not end the next hold after an early unlock", function()
    local lock = assert(client:lock("a", { max_hold = 0.2 }))
    assert.is_true(lock:unlock())
    local again = assert(client:lock("a"))
    wait.sleep(0.4)
    assert.is_true(again:check())
    assert.same({ false, "not_held" }, { lock:held() })
  end)

  it("may exceed the TTL: the client renews the lease until max_hold is over", function()
    local short = connect { ttl = 4 }
    assert(short:lock "before"):unlock() -- connects, and creates the lease
    local asked = wait.now()
    local lock = assert(short:lock("a", { max_hold = 5 }))
    local had = wait.now()
    assert.equal("max_hold", lock:wait_lost(10))
    local over = wait.now()
    assert.is_true(over - asked > 4.8, over - asked)
    assert.is_true(over - had < 5 + wait.SLACK, over - had)
  end)

  it("may be as short as 0.1 ms", function()
    local count = 0
    for i = 1, 50 do
      local lock = client:lock("a", { max_hold = i < 5 and 0.0001 or 0.001, timeout = 5 })
      if lock then -- the hold may be over before the lock is returned
        count = count + 1
        lock:wait_lost(5)
        assert.same({ false, "lost" }, { lock:held() })
      end
    end
    assert.is_true(count > 0)
    etcd:await_keys(prefix, 0)
  end)
end)

it("expire moves the end of a hold earlier and later, any number of times", function()
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
  -- The test calls no method of the lock here, because such a call would find the loss by its
  -- clock.
  wait.eventually(function() return asked:dirty() end, 3, "the next one's turn")
  local next_one, message = asked:step()
  assert.is_truthy(next_one, message)
  assert.same({ false, "lost" }, { lock:held() })
  assert.equal("max_hold", lock:wait_lost(0))
  assert.is_true(next_one:unlock())
end)

-- Regression 047. The end of a hold was computed in whole milliseconds from the millisecond in
-- which the hold began. The hold ended up to 1 ms early, and a log showed a hold shorter than its
-- max_hold.
it("a hold does not end before its max_hold has passed", function()
  local holds = {}
  local client = connect { log = function(event) holds[#holds + 1] = event.hold end }
  for i = 1, 20 do
    local opts = { max_hold = 0.003, linger = i % 2 == 0 and 60 or nil }
    if opts.linger then assert(client:lock("a", { linger = 60 })):unlock() end
    local lock = assert(client:lock("a", opts))
    repeat until not lock:held() -- held reads the clock
    assert.is_nil((lock:unlock()))
    assert.is_true(holds[#holds] >= 0.003, holds[#holds])
  end
end)
