-- Tests read and write locks: several readers or one writer hold a name, in queue order.

local assert_wait = clients.assert_wait
local ask, granted, modes_held = clients.ask, clients.granted, clients.modes_held

describe("read locks", function()
  it("are held at the same time by several owners and several clients", function()
    local reader, another = assert(client:read_lock "a"), assert(other:read_lock "a")
    local third_one = assert(client:read_lock("a", { owner = "third" }))
    for _, lock in ipairs { reader, another, third_one } do
      assert.is_true(lock:check())
      assert.equal("read", lock:mode())
    end
    assert.same({ "read", "read" }, modes_held(third, "a"))
    assert.is_true(reader:unlock())
    assert.is_true(third_one:check())
    assert.is_true(third_one:unlock())
    assert.is_true(another:check())
    assert.is_true(another:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("of one client share one key and token, and only the first sends a request", function()
    local first = assert(client:read_lock "a")
    local before = client:stats()
    local locks = {}
    for i = 1, 20 do
      locks[i] = assert(client:read_lock("a", { owner = i }))
      assert.equal(first:key(), locks[i]:key())
      assert.equal(first:token(), locks[i]:token())
    end
    assert.equal(before.enqueues + before.tries, client:stats().enqueues + client:stats().tries)
    assert.is_true(first:unlock())
    for i = 20, 1, -1 do
      assert.is_true(locks[i]:held())
      assert.is_true(locks[i]:unlock())
      assert.same({ false, "not_held" }, { locks[i]:held() })
    end
    assert.same({}, etcd:keys(prefix))
  end)

  it("of one client that wait for a writer are all granted when it unlocks", function()
    local writer = assert(other:write_lock "a")
    local asked = {}
    for i = 1, 10 do asked[i] = ask(client, "read", "a") end
    etcd:await_keys(prefix, 2)
    assert_wait((table.unpack or unpack)(asked))
    asked[4]:cancel()
    assert.is_true(writer:unlock())
    for i, one in ipairs(asked) do
      if i ~= 4 then assert.is_true(clients.keep(granted(one)):held()) end
    end
    assert.equal(9, client:stats().held)
  end)

  it("wait for a writer that was queued before them, so that it does not starve", function()
    local reader = assert(client:read_lock "a")
    local writer = ask(other, "write", "a")
    etcd:await_keys(prefix, 2)
    local later = ask(third, "read", "a")
    etcd:await_keys(prefix, 3)
    assert_wait(writer, later)
    assert.is_true(reader:unlock())
    writer = granted(writer)
    assert_wait(later)
    assert.is_true(writer:unlock())
    assert.is_true(granted(later):unlock())
  end)

  it("of one client share a key within the handoff budget, then the next key", function()
    local hasty = connect { handoff = 3, handoff_time = 60 }
    local keys = {}
    for i = 1, 9 do keys[i] = clients.keep(granted(ask(hasty, "read", "a"))):key() end
    for i = 1, 9 do assert.equal(keys[i - (i - 1) % 3], keys[i]) end
    assert.not_equal(keys[1], keys[4])
    assert.not_equal(keys[4], keys[7])
  end)

  it("that block their process share a key despite a waiting writer: no deadlock", function()
    local hasty = connect { handoff = 2, handoff_time = 0.001 }
    local first = assert(hasty:read_lock "a")
    local writer = ask(other, "write", "a")
    etcd:await_keys(prefix, 2)
    local second = assert(hasty:read_lock("a", { owner = 2, timeout = 5 }))
    assert.equal(first:key(), second:key())
    local later = ask(hasty, "read", "a") -- does not block the process
    etcd:await_keys(prefix, 3)
    assert_wait(writer, later)
    assert.is_true(first:unlock())
    assert.is_true(second:unlock())
    assert.is_true(granted(writer):unlock())
    assert.is_true(granted(later):unlock())
  end)

  it('fail with "deadlock" if a queued writer waits for a reader of this process', function()
    local sibling = connect() -- another client of the same process
    local first = assert(client:read_lock "a")
    assert.is_true(assert(sibling:read_lock("a", { owner = 2 })):unlock())
    local writer = ask(other, "write", "a")
    etcd:await_keys(prefix, 2)
    assert.matches("a writer waits behind a read hold of this program",
      assert_fails("deadlock", sibling:read_lock("a", { owner = 2 })))
    assert.is_true(first:unlock())
    writer = granted(writer)
    assert.is_true(writer:downgrade())
    assert.is_true(assert(other:read_lock("a", { owner = 2 })):unlock())
    local next_one = ask(client, "write", "a")
    etcd:await_keys(prefix, 3)
    assert_fails("deadlock", other:read_lock("a", { owner = 2 }))
    assert.is_true(writer:unlock())
    assert.is_true(granted(next_one):unlock())
  end)

  it("tried at the same time are all granted, even before the client has a lease", function()
    local fresh = connect()
    local asked = {}
    for i = 1, 5 do asked[i] = ask(fresh, "read", "a", { timeout = 0 }) end
    for _, one in ipairs(asked) do assert.is_true(granted(one):unlock()) end
  end)

  it("join a read hold only within the handoff budget while a writer waits", function()
    local patient = connect { handoff = 4, handoff_time = 60 }
    local reader = assert(patient:read_lock "a")
    local writer = ask(other, "write", "a")
    etcd:await_keys(prefix, 2)
    local locks = {}
    wait.eventually(function()
      local asked = ask(patient, "read", "a")
      patient:ping() -- is answered after the reader is granted or queued
      locks[#locks + 1] = asked:step() or nil
      return asked:step() == false and asked
    end, 5, "a reader who isn't let in")
    assert.is_true(#locks >= 2 and #locks < 8, #locks .. " joined")
    assert.is_true(reader:unlock())
    for _, lock in ipairs(locks) do assert.is_true(lock:unlock()) end
    assert.is_true(granted(writer):unlock())
  end)

  it("that share a key end separately: max_hold of one does not end the other", function()
    local reader = assert(client:read_lock "a")
    local brief = assert(client:read_lock("a", { owner = "brief", max_hold = 0.2 }))
    assert.equal(reader:key(), brief:key())
    wait.eventually(function() return client:stats().held < 2 end, 5, "the end of the hold")
    assert.equal("max_hold", brief:wait_lost(5))
    assert.is_true(reader:check())
    assert_fails("lost", brief:unlock())
    assert.is_true(reader:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("that share a key are all lost when the key is deleted", function()
    local reader = assert(client:read_lock "a")
    local another = assert(client:read_lock("a", { owner = "another" }))
    etcd:del(reader:key())
    assert.equal("deleted", reader:wait_lost(5))
    assert.equal("deleted", another:wait_lost(5))
    assert.is_true(assert(client:write_lock("a", { timeout = 5, owner = 1 })):unlock())
  end)

  it('via try_read_lock fail with "locked" while a writer holds or waits', function()
    local reader = assert(client:try_read_lock "a")
    assert.is_true(assert(other:try_read_lock "a"):unlock())
    local writer = ask(other, "write", "a")
    etcd:await_keys(prefix, 2)
    assert_fails("locked", third:try_read_lock "a")
    assert.is_true(reader:unlock())
    writer = granted(writer)
    assert_fails("locked", third:try_read_lock "a")
    assert.is_true(writer:unlock())
    assert.is_true(assert(third:try_read_lock "a"):unlock())
  end)
end)

describe("a write lock", function()
  it("waits for all readers and writers that were queued before it", function()
    local first, second = assert(client:read_lock "a"), assert(other:read_lock "a")
    local writer = ask(third, "write", "a")
    etcd:await_keys(prefix, 3)
    local next_one = ask(client, "write", "a")
    etcd:await_keys(prefix, 4)
    assert.is_true(second:unlock())
    assert_wait(writer, next_one)
    assert.is_true(first:unlock())
    writer = granted(writer)
    assert.same({ "write" }, modes_held(third, "a"))
    assert_wait(next_one)
    assert.is_true(writer:token() > first:token())
    assert.is_true(writer:unlock())
    next_one = granted(next_one)
    assert.is_true(next_one:token() > writer:token())
    assert.is_true(next_one:unlock())
  end)

  it("waits for a plain lock of the same name, which excludes readers, too", function()
    local plain = assert(client:lock "a")
    local reader = ask(other, "read", "a")
    etcd:await_keys(prefix, 2)
    local writer = ask(third, "write", "a")
    etcd:await_keys(prefix, 3)
    assert_wait(reader, writer)
    assert_fails("locked", third:try_write_lock("a", { owner = "x" }))
    assert.is_true(plain:unlock())
    reader = granted(reader)
    assert_fails("locked", client:try_lock "a")
    assert_wait(writer)
    assert.is_true(reader:unlock())
    assert.is_true(granted(writer):unlock())
  end)

  it("and a read lock requested at once are granted one after the other", function()
    -- If one batch put both keys, they would have the same revision, and so no order.
    local asked = {}
    for i = 1, 60 do
      asked[i] = {
        assert(client:write_lock_async("n" .. i, { owner = "w" })),
        assert(client:read_lock_async("n" .. i, { owner = "r" })),
      }
    end
    wait.eventually(function() return client:stats().batched > 20 end, 5, "what leaves together")
    for _, pair in ipairs(asked) do clients.assert_one_after_the_other(pair) end
    assert.same({}, etcd:keys(prefix))
  end)

  it("gives its owner the same hold for further read, plain and try locks", function()
    local lock = assert(client:write_lock "a")
    assert.equal(lock, client:read_lock "a")
    assert.equal(lock, client:try_read_lock "a")
    assert.equal(lock, client:lock "a")
    assert.equal(4, lock:count())
    for _ = 1, 4 do assert.is_true(lock:unlock()) end
    assert.same({}, etcd:keys(prefix))
  end)

  it('fails with "deadlock" at once if its owner has a read hold', function()
    local lock = assert(client:read_lock "a")
    assert.equal(lock, client:read_lock "a")
    for _, call in ipairs { "write_lock", "lock", "try_write_lock", "write_lock_async" } do
      local message = assert_fails("deadlock", client[call](client, "a"))
      assert.matches("its owner has a read hold; a read hold cannot be upgraded to write", message)
    end
    assert.equal(2, lock:count())
    assert.is_true(lock:unlock())
    assert.is_true(lock:unlock())
    assert.is_true(assert(client:write_lock "a"):unlock())
  end)

  it('fails with "deadlock" if another owner of the blocking process reads', function()
    local reader = coroutine.wrap(function() return assert(client:read_lock "a") end)()
    assert_fails("deadlock", client:write_lock "a")
    assert_fails("locked", client:try_write_lock "a")
    assert.is_true(assert(client:read_lock "a"):unlock())
    assert.is_true(reader:unlock())
  end)

  it("taken by with_write_lock excludes readers; calls of with_read_lock overlap", function()
    assert.same({ true, 7 }, { client:with_write_lock("a", function(lock)
      assert_fails("locked", other:try_read_lock "a")
      assert.equal("write", lock:mode())
      return 7
    end) })
    assert.same({ true, 8 }, { client:with_read_lock("a", { timeout = 5 }, function()
      return select(2, other:with_read_lock("a", function() return 8 end))
    end) })
    assert.same({}, etcd:keys(prefix))
  end)
end)
