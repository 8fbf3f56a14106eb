-- Tests the counters of client:stats, and how many requests each call sends.

-- A long lease: |client| sends no keepalive while a test counts.
client_options { ttl = 300 }

before_each(function()
  assert(client:lock "warm"):unlock() -- creates the lease
end)

-- Calls |run| and returns by how much each counter has changed; omits those that have not.
local function spent(run)
  local before = client:stats()
  run()
  local after = client:stats()
  for field, value in pairs(after) do
    after[field] = value ~= before[field] and value - before[field] or nil
  end
  return after
end

describe("a client", function()
  it("sends two requests for a free lock: one to acquire it, one to release it", function()
    -- if the hold is too short for a watch of its key
    assert.same({ enqueues = 1, deletes = 1, acquired = 1, rpcs = 2 }, clients.briefly(function()
      return spent(function() assert(client:with_lock("a", function() end)) end)
    end))
  end)

  it("sends two requests per lock when it acquires a lock 50 times in a row", function()
    local counted = spent(function()
      for _ = 1, 50 do assert(client:lock "a"):unlock() end
    end)
    assert.same({ 50, 50 }, { counted.enqueues, counted.deletes })
    assert.is_nil(counted.looks or counted.tries or counted.failed_attempts)
  end)

  -- A watch may report a deletion before the member that answers the read has applied it. The
  -- client then reads a second time, through the quorum.
  it("sends two requests to wait for a lock, and one or two reads when it becomes free", function()
    local lock, pending = assert(other:lock "a"), nil
    local before = client:stats()
    assert.same({ enqueues = 1, watches = 1, waiting = 1, calls = 1, rpcs = 3 }, spent(function()
      pending = assert(client:lock_async "a")
      wait.eventually(function() return client:stats().watches > before.watches end)
      assert(client:ping()) -- requests that the start of the watch causes are sent by now
    end))
    local turn = spent(function()
      lock:unlock()
      wait.eventually(function() return pending:step() end)
    end)
    local watches = turn.watches or 0 -- a watch of the own key, after a long hold
    assert.is_true(turn.looks <= 2 and watches <= 1, turn.looks)
    assert.equal(turn.looks + watches, turn.rpcs)
    assert(pending:step()):unlock()
  end)

  it("sends no request for reentrant calls and for getters of lock and client", function()
    local lock = assert(client:lock "a")
    wait.eventually(function() return client:stats().watches == 1 end)
    wait.sleep(0.1)
    assert.same({}, spent(function()
      for _ = 1, 1000 do
        assert(lock:held() and lock:remaining() > 0)
        assert(lock:token() and lock:key() and lock:lease() and lock:count() and lock:name())
        assert(client:lock "a" and client:try_lock "a")
        assert(lock:unlock() and lock:unlock())
        assert(tostring(lock) and client:alive() and client:lease())
      end
    end))
  end)

  it("that holds no lock renews its lease and reads no key", function()
    local idle = connect { ttl = 3 }
    assert(idle:lock "a"):unlock()
    local before = idle:stats()
    wait.eventually(function()
      return idle:stats().keepalives >= before.keepalives + 3
    end, 5, "three renewals")
    local after = idle:stats()
    assert.equal(before.lease_checks, after.lease_checks)
    assert.equal(0, after.failed_attempts)
    assert.is_true(after.rpcs - before.rpcs <= 6, after.rpcs - before.rpcs)
  end)

  it("that holds no lock wakes its I/O thread at most 6 times in 2.5 s", function()
    local child = remote.start { endpoints = etcd:endpoints(), prefix = prefix, ttl = 10 }
    remote.ask(child, "return client:lock('a'):unlock()")
    wait.sleep(10 / 3 + 0.5) -- until the next keepalive, after which a held key would be read
    local count
    for _ = 1, 3 do
      local before, from = wakings(child.pid), wait.now()
      wait.sleep(2.5)
      count = wakings(child.pid) - before
      if wait.now() - from < 2.7 then break end -- else further keepalives are counted
    end
    assert.is_true(count <= 6, count .. " times")
    child:wait()
  end)

  it("counts in rpcs the sum of its requests of all kinds, without the batched ones", function()
    clients.keep(assert(client:lock "a"))
    client:try_lock "a"
    client:queue "a"
    local stats, sum = client:stats(), 0
    for _, kind in ipairs {
      "enqueues", "tries", "looks", "deletes", "lease_checks",
      "keepalives", "grants", "revokes", "watches", "calls",
    } do
      sum = sum + stats[kind]
    end
    assert.equal(sum - stats.batched, stats.rpcs)
  end)
end)

describe("the counters of a client", function()
  it("are those that the reference lists", function()
    local reference, listed = read_file "doc/reference.md", {}
    local rows = reference:match "The counters that `client:stats` returns[^\n]*\n(.-)\n\n%*%*"
    for name in rows:gmatch "\n| `([%w_]+)` |" do listed[name] = true end
    for name in pairs(client:stats()) do
      assert.is_true(listed[name], name .. " is not in the reference")
      listed[name] = nil
    end
    assert.same({}, listed)
  end)

  it("show how many locks are held, acquired and lost", function()
    local a, b = assert(client:lock "a"), assert(client:lock "b")
    local stats = client:stats()
    assert.same({ 2, 0, 3, 0 }, { stats.held, stats.waiting, stats.acquired, stats.lost })
    a:unlock()
    wait.eventually(function() return client:stats().held == 1 end)
    other:break_lock("b", b:token())
    b:wait_lost(5)
    wait.eventually(function() return client:stats().held == 0 end)
    assert(client:ping()) -- is answered after the loss is counted
    assert.equal(1, client:stats().lost)
    assert.equal(3, client:stats().acquired)
  end)

  it("show a waiter while it waits", function()
    local waiting
    clients.keep(assert(other:lock "b"))
    local lock = assert(client:lock("a", { max_hold = 0.1 }))
    lock:on_lost(function() waiting = client:stats().waiting end)
    assert.is_nil((client:lock("b", { timeout = 0.6 })))
    assert.equal(1, waiting)
    assert.equal(0, client:stats().waiting)
  end)

  it("count a hold that max_hold ended once, also if held finds its end first", function()
    for _ = 1, 5 do
      local lock = assert(client:lock("a", { max_hold = 0.02, timeout = 5 }))
      while lock:held() do end -- luacheck: ignore 542
      lock:unlock()
    end
    wait.eventually(function() return client:stats().held == 0 end)
    assert(client:ping()) -- is answered after the last loss is counted
    assert.equal(5, client:stats().lost)
  end)

  it("are whole numbers", function()
    for field, value in pairs(client:stats()) do
      assert.matches("^%d+$", tostring(value), field)
    end
  end)

  it("show failed attempts, but at most 10 requests, if no etcd is running", function()
    local nowhere = connect { endpoints = "127.0.0.1:1", ttl = 2 }
    assert.is_nil((nowhere:lock("a", { timeout = 0.3 })))
    local stats = nowhere:stats()
    assert.is_true(stats.failed_attempts > 0)
    assert.is_true(stats.rpcs <= 10, stats.rpcs)
    assert.equal(0, stats.acquired)
  end)
end)
