-- Tests keys and values below the name of a lock that do not belong to the lock.

-- Regression 069. Any key below a lock's name that ended in hex digits was taken for an entry. So
-- user data such as "order/1001" blocked the lock "order" forever, break_lock deleted it, and an
-- election reported it as its leader. Now an entry must be attached to the lease that its name
-- contains, or, if its name contains a time (Go's RWMutex), to any lease.
local granted, keep = clients.granted, clients.keep

-- User data: keys below the name "order".
local DATA = {
  "1001", "cafe", "2026", "1f-2", "read/77", "read/77-1", "write/77", "permit/1f.1",
  "permit/1f-2.3",
}
-- A lock that is not free within this time is blocked.
local SOON = { timeout = 5 }

after_each(clear_etcd)

-- Puts user data below "order": without a lease, or attached to |lease|.
local function put_data(lease)
  for _, key in ipairs(DATA) do etcd:put(prefix .. "order/" .. key, "price=12", lease) end
end

-- Calls |check| twice with user data below "order": first without a lease, then with the lease of
-- another program. Asserts that only this data is left then, unchanged.
local function with_data(check)
  for _, lease in ipairs { false, etcd:grant(600) } do
    put_data(lease or nil)
    check()
    local keys = etcd:keys(prefix .. "order/")
    assert.equal(#DATA, #keys, table.concat(keys, " "))
    for _, key in ipairs(keys) do assert.equal("price=12", (etcd:get(key))) end
  end
end

-- Returns a client with |ttl| whose watches get no answer: it learns of a key only by its requests.
local function unwatched(ttl)
  local deaf = connect { endpoints = server:endpoint(), ttl = ttl }
  assert(deaf:lock "first"):unlock()
  server:answer("Watch", "never", 14, "")
  return deaf
end

describe("user data below a lock's name", function()
  it("does not block lock, try_lock, read_lock, write_lock and multi_lock", function()
    with_data(function()
      for _, mode in ipairs { "lock", "read_lock", "write_lock", "multi_lock" } do
        local name = mode == "multi_lock" and { "order", "other" } or "order"
        assert.is_true(assert(client[mode](client, name, SOON)):unlock())
        assert.is_true(assert(client["try_" .. mode](client, name)):unlock())
      end
    end)
  end)

  it("takes no permits of a semaphore, and causes no conflict", function()
    with_data(function()
      local pool = assert(client:semaphore("order", 2))
      assert.equal(2, (pool:available()))
      local first = assert(pool:try_lock { owner = 1 })
      local second = assert(pool:lock { owner = 2, timeout = 5 })
      assert.equal(0, (pool:available()))
      assert_fails("locked", pool:try_lock { owner = 3 })
      assert.is_true(first:unlock())
      assert.is_true(second:unlock())
    end)
  end)

  it("leads no election", function()
    with_data(function()
      local election = assert(client:election "order")
      local observer = assert(other:election "order"):observe()
      assert.is_false((election:leader()))
      clients.assert_unchanged(observer, 0.3)
      local lock = assert(election:campaign("me", SOON))
      assert.equal("me", (election:leader()))
      assert.equal("me", (observer:next(5)))
      assert.is_true(lock:resign())
      assert.is_false((observer:next(5)))
    end)
  end)

  it("is listed by neither queue nor queues, and break_lock refuses it", function()
    with_data(function()
      assert.same({}, client:queue "order")
      assert.same({}, client:queues())
      local lock = keep(assert(client:lock("order", SOON)))
      assert.equal(1, #client:queue "order")
      assert.equal(1, #client:queues())
      for _, key in ipairs(DATA) do
        local _, revision = etcd:get(prefix .. "order/" .. key)
        assert_fails("not_held", other:break_lock("order", revision))
      end
      assert.is_true(lock:unlock())
    end)
  end)

  it("is not deleted by etcdlock break, nor listed by etcdlock ls", function()
    with_data(function()
      local _, revision = etcd:get(prefix .. "order/1001")
      local _, status, message = command.run { "break", prefix .. "order", ("%d"):format(revision) }
      assert.not_equal(0, status)
      assert.matches('lock "' .. prefix .. 'order" is not held', message, 1, true)
      assert.matches("^No lock whose name ", (command.run { "ls", prefix }))
    end)
  end)

  it("may be put by the holder of the lock, which can be locked again", function()
    local lock = assert(client:lock "stock")
    assert.is_true(lock:put(prefix .. "stock/1001", "12"))
    assert.is_true(lock:unlock())
    for _ = 1, 2 do
      assert.is_true(assert(client:lock("stock", SOON)):unlock())
      assert.is_true(assert(other:try_lock "stock"):unlock())
    end
    assert.equal("12", (etcd:get(prefix .. "stock/1001")))
  end)

  it("does not hide an entry, and does not wake or disturb its waiters", function()
    with_data(function()
      local lock = assert(client:lock("order", SOON))
      assert_fails("locked", other:try_lock "order")
      assert_fails("locked", other:try_multi_lock { "other", "order" })
      local pending = assert(other:lock_async("order", { timeout = 30 }))
      etcd:await_keys(prefix .. "order/", #DATA + 2)
      put_data()
      assert.is_false((pending:step()))
      assert.is_true(lock:unlock())
      assert.is_true(granted(pending):unlock())
    end)
  end)

  it("does not end a linger", function()
    put_data()
    assert.is_true(assert(client:lock("order", { linger = 60, timeout = 5 })):unlock())
    put_data()
    local deletes = client:stats().deletes
    for _ = 1, 5 do assert(client:ping()) end
    assert.equal(#DATA + 1, #etcd:keys(prefix .. "order/"))
    assert.equal(deletes, client:stats().deletes)
    -- The entry of another client ends the linger.
    assert.is_true(assert(other:lock("order", SOON)):unlock())
  end)

  it("costs lock and try_lock at most two requests more than a free name", function()
    put_data()
    local before = client:stats()
    assert.is_true(assert(client:lock("order", SOON)):unlock())
    local after = client:stats()
    assert.equal(1, after.enqueues - before.enqueues)
    assert.is_true(after.looks - before.looks <= 2)
    assert.is_true(assert(client:try_lock "order"):unlock())
    assert.is_true(client:stats().tries - after.tries <= 3)
  end)
end)

describe("an entry that somebody overwrote with another lease or none", function()
  -- Calls |check| twice with a function that overwrites a key: first without a lease, then with
  -- another lease.
  local function with_overwrite(check)
    for _, lease in ipairs { false, etcd:grant(600) } do
      check(function(key) etcd:put(key, "price=12", lease or nil) end)
      etcd:del_all(prefix)
    end
  end

  it("blocks no waiter any longer", function()
    with_overwrite(function(overwrite)
      local key = prefix .. "order/" .. etcd:grant(600)
      etcd:put(key, "", key:match "[^/]*$")
      local first = assert(client:lock_async("order", { timeout = 30 }))
      etcd:await_keys(prefix .. "order/", 2)
      local second = clients.ask(other, "read", "order")
      etcd:await_keys(prefix .. "order/", 3)
      overwrite(key)
      assert.is_true(granted(first):unlock())
      assert.is_true(granted(second):unlock())
    end)
  end)

  it("blocks no waiter for a permit any longer", function()
    with_overwrite(function(overwrite)
      local lease = etcd:grant(600)
      local key = ("%sorder/permit/%s.1"):format(prefix, lease)
      etcd:put(key, "", lease)
      local pending = assert(assert(client:semaphore("order", 1)):lock_async { timeout = 30 })
      etcd:await_keys(prefix .. "order/", 2)
      clients.assert_wait(pending)
      overwrite(key)
      assert.is_true(granted(pending):unlock())
    end)
  end)

  it('is not reported as leader, and its campaigner is told "lost"', function()
    with_overwrite(function(overwrite)
      local election = assert(client:election "order")
      local observer = assert(other:election "order"):observe()
      local lock = assert(election:campaign("me", SOON))
      assert.equal("me", (observer:next(5)))
      overwrite(lock:key())
      assert.is_false((observer:next(5)))
      assert_fails("lost", lock:proclaim "still me")
      assert.equal("replaced", lock:wait_lost(5))
      assert.is_false((election:leader()))
    end)
  end)

  local CALLS = {
    put = function(lock) return lock:put(prefix .. "data", "late") end,
    get = function(lock) return lock:get(prefix .. "data") end,
    check = function(lock) return lock:check() end,
    unlock = function(lock) return lock:unlock() end,
  }

  it('guards nothing: put, get, check and unlock return "lost"', function()
    local deaf = unwatched()
    for _, call in pairs(CALLS) do
      for _, take in ipairs { "lock", "read_lock", "write_lock" } do
        with_overwrite(function(overwrite)
          local lock = assert(deaf[take](deaf, "order", SOON))
          if not (take == "read_lock" and call == CALLS.put) then
            overwrite(lock:key())
            local next_holder = assert(other:lock("order", SOON))
            assert_fails("lost", call(lock))
            assert.is_nil((etcd:get(prefix .. "data")))
            assert.is_true(next_holder:unlock())
          end
          lock:unlock()
        end)
      end
    end
  end)

  it('is told "replaced" to its holder by the next read of the key, without a watch', function()
    local lock = assert(unwatched(3):lock("order", SOON))
    etcd:put(lock:key(), "price=12")
    assert.equal("replaced", lock:wait_lost(10))
    assert_fails("lost", lock:check())
  end)

  it("does not keep its client from taking the lock again", function()
    with_overwrite(function(overwrite)
      local lock = assert(client:lock("order", SOON))
      overwrite(lock:key())
      assert.equal("replaced", lock:wait_lost(5))
      assert.is_true(assert(client:lock("order", SOON)):unlock())
      assert.same({}, etcd:keys(prefix .. "order/"))
    end)
  end)
end)

-- Regression 244. The client took a key that somebody had put with the name of its own key, and
-- without a lease, for an answer of etcd that omits leases: each call failed with "protocol".
describe("a key without a lease that has the name of the client's own key", function()
  local TAKE = {
    lock = function() return client:lock("order", SOON) end,
    try_lock = function() return client:try_lock "order" end,
    read_lock = function() return client:read_lock("order", SOON) end,
    try_write_lock = function() return client:try_write_lock "order" end,
    multi_lock = function() return client:multi_lock({ "order", "other" }, SOON) end,
    semaphore = function() return assert(client:semaphore("order", 1)):lock(SOON) end,
  }

  -- Asks, as another client, for a hold that excludes the one that |TAKE[name]| has taken.
  local function rival(name)
    if name == "semaphore" then
      return assert(other:semaphore("order", 1)):lock { timeout = 0.2 }
    end
    return other:try_write_lock "order"
  end

  for name, take in pairs(TAKE) do
    it(("keeps %s from nothing, and stays"):format(name), function()
      local lock = assert(take())
      local key = lock:key()
      assert.is_true(lock:unlock())
      etcd:await_keys(prefix, 0)
      etcd:put(key, "price=12")
      for _ = 1, 2 do
        lock = assert(take())
        assert.not_equal(key, lock:key())
        assert_fails(name == "semaphore" and "timeout" or "locked", rival(name))
        assert.is_true(lock:unlock())
      end
      etcd:put(lock:key(), "price=13", etcd:grant(600))
      assert.is_true(assert(take()):unlock())
      etcd:await_keys(prefix, 2)
      assert.equal("price=12", (etcd:get(key)))
    end)
  end

  it("ends a hold as \"deleted\", if it takes the place of the key of the hold", function()
    local deaf = unwatched(3)
    local lock = assert(deaf:lock("order", SOON))
    etcd:del(lock:key())
    etcd:put(lock:key(), "price=12")
    assert.equal("deleted", lock:wait_lost(10))
    assert.is_true(assert(deaf:lock("order", SOON)):unlock())
    assert.equal("price=12", (etcd:get(lock:key())))
  end)
end)

-- Regression 131. Because etcd 3.7 omits the lease of a key that is read without its value, the
-- client reads the values of a queue, too. An answer with many large values exceeds the size limit
-- of a message (32 MiB). Then the client must read the queue in smaller parts.
local MEGABYTE = ("x"):rep(1000 * 1000)
-- So many keys of one megabyte do not fit into one answer.
local KEYS = 40

describe("a queue whose values exceed the size of a message", function()
  it("is read in parts by lock, try_lock, write_lock, multi_lock and queues", function()
    for i = 1, KEYS do etcd:put(("%sdata/%x"):format(prefix, i), MEGABYTE) end
    assert.is_true(assert(client:lock("data", SOON)):unlock())
    assert.is_true(assert(client:try_lock "data"):unlock())
    assert.is_true(assert(client:write_lock("data", SOON)):unlock())
    assert.is_true(assert(client:multi_lock({ "data", "other" }, SOON)):unlock())
    assert.is_true(assert(client:lock("other", SOON)):unlock())
    assert.same({}, client:queues())
  end)

  it("does not make tries fail that leave in one batch", function()
    local client, pending = connect(), {}
    for i = 1, KEYS do etcd:put(("%smany/%d/data"):format(prefix, i), MEGABYTE) end
    assert(client:lock "warm"):unlock()
    for i = 1, KEYS do
      pending[i] = assert(client:lock_async("many/" .. i, { timeout = 0, owner = i }))
    end
    for i = 1, KEYS do
      assert.is_true(granted(pending[i]):unlock())
    end
  end)

  it("is counted in parts by a waiter for a permit", function()
    for i = 1, KEYS do
      local lease = etcd:grant(600)
      etcd:put(("%spool/permit/%s.1"):format(prefix, lease), MEGABYTE, lease)
      if i == 1 then etcd:put(prefix .. "pool/first", lease) end
    end
    local more = assert(client:semaphore("pool", KEYS + 1))
    assert.is_true(assert(more:lock(SOON)):unlock())
    -- A try fails if the answers take longer than 2 s, as they may on a busy machine.
    local tried = wait.eventually(function() return more:try_lock() end, 20, "a permit for a try")
    assert.is_true(tried:unlock())
    local same = assert(client:semaphore("pool", KEYS))
    wait.eventually(function() return select(3, same:try_lock()) == "locked" end, 20, "no permit")
    local pending = assert(same:lock_async { timeout = 30 })
    etcd:await_keys(prefix .. "pool/", KEYS + 2)
    assert.is_false((pending:step()))
    etcd:revoke((etcd:get(prefix .. "pool/first")))
    assert.is_true(granted(pending):unlock())
  end)
end)

-- Regression 146. A second try that had to read in parts could put its key while another key
-- disappeared. The client then took the number of keys for a sign that etcd had omitted some.
it("a try is not disturbed by keys that come and go", function()
  for i = 1, 2 do etcd:put(("%sbusy/data%d"):format(prefix, i), MEGABYTE:sub(1, 300000)) end
  local child = remote.start { endpoints = suite.endpoints(), prefix = prefix, ttl = 30 }
  remote.ask(child, "semaphore = client:semaphore('busy', 5)")
  for _ = 1, 20 do
    remote.send(child, "for _ = 1, 10 do assert(semaphore:lock()):unlock() end")
    for _ = 1, 10 do
      local lock, message, code = client:try_write_lock "busy"
      if lock then lock:unlock() else assert.equal("locked", code, message) end
    end
    remote.answer_of(child)
  end
  remote.ask(child, "client:close()")
end)
