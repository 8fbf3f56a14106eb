-- Tests that the hold of a multi-lock guards writes, is lost and is released as one.

local STATUS = error_rows.STATUS
local granted = clients.granted

local function ask(of, names) return assert(of:multi_lock_async(names, { owner = {} })) end

describe("a multi-lock", function()
  local function lose(take)
    local watchful = connect { ttl = 60 } -- with this TTL no background read happens in the test
    local lock = assert(watchful:multi_lock { "a", "b", "c" })
    clients.await_watched(watchful, lock)
    take()
    local reason = assert(lock:wait_lost(5))
    etcd:await_keys(prefix, 0)
    return reason
  end

  it("is lost with all its keys when one of them is deleted or replaced", function()
    for _, name in ipairs { "a", "b", "c" } do
      assert.equal("deleted", lose(function() etcd:del((other:queue(name)[1].key)) end))
    end
    assert.equal("replaced", lose(function() etcd:put(other:queue("b")[1].key, "by an admin") end))
  end)

  it("is lost although the DELETE of a key is compacted while the watch is down", function()
    for _, name in ipairs { "a", "b", "c" } do
      local unwatched = connect { endpoints = server:endpoint(), ttl = 60 }
      local lock = assert(unwatched:multi_lock { "a", "b", "c" })
      clients.await_watched(unwatched, lock)
      server:answer("Watch", "before", STATUS.UNAVAILABLE, "etcdserver: no leader")
      server:interrupt("Watch", STATUS.UNAVAILABLE, "etcdserver: no leader")
      etcd:del((other:queue(name)[1].key))
      assert.equal(0, select(2, etcd:ctl("compact", ("%d"):format(etcd:revision()))))
      server:pass()
      assert.equal("deleted", lock:wait_lost(10))
      etcd:await_keys(prefix, 0)
    end
  end)

  -- Regression 149. The wait failed with "protocol": the client took the deleted key for one that
  -- etcd had omitted from its answer.
  it('that waits fails with "lost" when one of its keys is deleted', function()
    for name, i in pairs { a = 1, b = 2 } do
      local lock = assert(other:lock "b")
      local asked = ask(client, { "a", "b" })
      etcd:await_keys(prefix, 3)
      etcd:del((other:queue(name)[i].key))
      assert.is_true(lock:unlock())
      assert_fails("lost", clients.ended(asked))
      etcd:await_keys(prefix, 0)
    end
  end)

  it("that waits begins to wait again when its lease is revoked", function()
    local lock = assert(other:lock "b")
    local asked = ask(client, { "a", "b" })
    etcd:await_keys(prefix, 3)
    local lease = client:lease()
    etcd:revoke(lease)
    wait.eventually(function() return client:lease() and client:lease() ~= lease end, 5, "a lease")
    assert.is_true(lock:unlock())
    assert.is_true(clients.granted(asked):unlock())
  end)

  -- Returns a client of `server` that has a lease.
  local function through_server()
    local its = connect { endpoints = server:endpoint(), ttl = 60 }
    assert(its:lock "first"):unlock()
    return its
  end

  -- Returns such a client whose watches get no answer.
  local function deaf()
    local its = through_server()
    server:answer("Watch", "never", STATUS.UNAVAILABLE, "")
    return its
  end

  it('refuses guarded writes with "lost" when one of its keys is deleted', function()
    local lock = assert(client:multi_lock { "a", "b" })
    assert.is_true(lock:put(prefix .. "data", "1"))
    assert.equal("1", (lock:get(prefix .. "data")))
    assert.same({ true, "2" }, assert(lock:txn {
      { "put", prefix .. "data", "2" }, { "get", prefix .. "data" } }))
    assert.is_true(lock:unlock())
    local unheard = deaf()
    for _, name in ipairs { "a", "b", "c" } do
      local mine = assert(unheard:multi_lock { "a", "b", "c" })
      assert.is_true(mine:put(prefix .. "data", "2"))
      etcd:del((other:queue(name)[1].key))
      assert_fails("lost", mine:put(prefix .. "data", "late"))
      -- The client has no watch, so its next multi-lock would wait long for its old keys.
      etcd:await_keys(prefix, 1)
    end
    assert.equal("2", (etcd:get(prefix .. "data")))
  end)

  it('makes unlock return "lost" if one of its keys was deleted before', function()
    local unheard = deaf()
    for times = 0, 1 do -- attempts with an unknown outcome
      for _, name in ipairs { "a", "b", "c" } do
        local mine = assert(unheard:multi_lock { "a", "b", "c" })
        etcd:del((other:queue(name)[1].key))
        server:answer("Txn", "before", STATUS.UNAVAILABLE, "lost", times)
        assert_fails("lost", mine:unlock())
        etcd:await_keys(prefix, 0)
      end
    end
  end)

  it("is granted and released although the first answer is lost", function()
    local through = through_server()
    for _, method in ipairs { "multi_lock", "try_multi_lock" } do
      server:answer("Txn", "after", STATUS.UNAVAILABLE, "etcdserver: request timed out", 1)
      local mine = assert(through[method](through, { "a", "b" }))
      assert.equal(2, #etcd:keys(prefix))
      assert.is_true(mine:check())
      server:answer("Txn", "after", STATUS.UNAVAILABLE, "etcdserver: request timed out", 1)
      assert.is_true(mine:unlock())
      assert.same({}, etcd:keys(prefix))
    end
  end)

  it("keeps its keys during a lease audit", function()
    local unsure = through_server()
    server:answer("Txn", "after", STATUS.UNAVAILABLE, "etcdserver: request timed out", 1)
    local mine = assert(unsure:multi_lock { "a", "b" })
    wait.eventually(function() return unsure:stats().audits > 1 end, 10, "two audits")
    assert.is_true(mine:check())
    assert.equal(2, #etcd:keys(prefix))
    assert.is_true(mine:unlock())
  end)

  it("that is enqueued late, after the call failed, is removed with all its keys", function()
    local unsure = connect { endpoints = server:endpoint(), ttl = 60 }
    local kept = assert(unsure:lock "kept") -- keeps the session open
    server:delay("Txn", 100)
    assert_fails("unavailable", unsure:multi_lock({ "a", "b" }, { timeout = 0.5 }))
    local before = etcd:revision()
    server:pass()
    assert.is_true(server:deliver "Txn" > 0)
    wait.eventually(function() return etcd:revision() > before end, 5, "the keys")
    etcd:await_keys(prefix, 1)
    assert.is_true(kept:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("that is leaked is released and logged once with all of its names", function()
    local told = {}
    local heedless = connect { log = function(event)
      if event.event == "leaked" then told[#told + 1] = tostring(event) end
    end }
    coroutine.wrap(function() -- in a coroutine, so that its stack is collected, too
      local lock = assert(heedless:multi_lock { "a", "b" })
      assert.equal(2, #etcd:keys(prefix))
      assert.is_true(lock:held())
    end)()
    collectgarbage()
    collectgarbage()
    assert(heedless:lock "c"):unlock()
    assert.equal(1, #told)
    assert.matches('lock "' .. prefix
      .. 'a ' .. prefix .. 'b" was released because', told[1], 1, true)
    etcd:await_keys(prefix, 0)
  end)

  it("ends by max_hold and when the process that holds it is killed", function()
    local lock = assert(client:multi_lock({ "a", "b" }, { max_hold = 0.1 }))
    assert.equal("max_hold", lock:wait_lost(5))
    etcd:await_keys(prefix, 0)
    local child = remote.start { endpoints = suite.endpoints(), prefix = prefix, ttl = 4 }
    assert.same({ "true" }, remote.ask(child,
      "lock = assert(client:multi_lock { 'a', 'b' }) return (lock:held())"))
    local asked = ask(client, { "b", "c" })
    etcd:await_keys(prefix, 4)
    child:kill()
    assert.is_true(granted(asked):unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("leaves no key behind when its wait is cancelled", function()
    local lock = assert(other:lock "b")
    local asked = ask(client, { "a", "b", "c" })
    etcd:await_keys(prefix, 4)
    asked:cancel()
    etcd:await_keys(prefix, 1)
    assert.is_true(lock:unlock())
  end)

  it("ends a lingering key on one of its names, of its own or another client", function()
    for _, of in ipairs { client, other } do
      for _, name in ipairs { "a", "b" } do
        local lock = assert(of:lock(name, { linger = 60 }))
        clients.await_watched(of, lock) -- the watch reports other clients in the queue
        assert.is_true(lock:unlock())
        assert.is_true(assert(client:multi_lock({ "a", "b" }, { timeout = 5 })):unlock())
        assert.same({}, etcd:keys(prefix))
      end
    end
  end)
end)

-- Regression 035. Each multi-lock put keys with new names. etcd's index keeps the names of deleted
-- keys until the next compaction, and scans them when it reads a lock's keys. After 12,000
-- multi-locks, a call took 12 ms instead of 1 ms.
describe("the key of a multi-lock", function()
  before_each(function() scripted_client() end)

  local function take(names)
    return assert(client:multi_lock(names or { "a", "b" }, { owner = {} }))
  end

  it("is not reused while a late delete of it may arrive", function()
    local first = take()
    local key = first:key()
    server:delay "Txn"
    assert.is_true(first:unlock())
    local second = take()
    assert.are_not_equal(key, second:key())
    assert.is_true(server:deliver "Txn" >= 1)
    assert.is_true(second:check())
    assert.equal(2, #etcd:keys(prefix))
    assert.is_true(second:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("is reused although an older lease audit has listed it", function()
    local first, stays = take(), take { "c", "d" } -- keeps the session open
    -- A request of unknown outcome makes the client audit its lease.
    server:answer("Txn", "late", error_rows.STATUS.RESOURCE_EXHAUSTED,
      "etcdserver: mvcc: database space exceeded", 1)
    server:hold_back("LeaseTimeToLive")
    assert_fails("no_space", client:lock "late")
    wait.eventually(function() return server:held "LeaseTimeToLive" == 1 end, 10, "an audit")
    assert.is_true(first:unlock())
    local before = client:stats()
    server:tell "LeaseTimeToLive"
    -- The next audit starts after |first| has ended.
    wait.eventually(function() return client:stats().audits > before.audits end, 10, "another")
    assert.equal(before.looks, client:stats().looks)
    assert.equal(first:key(), take():key())
    assert.is_true(stays:unlock())
  end)
end)
