-- Tests the loss of a hold against its holder's will: when the client notices it, and what each
-- call returns from then on.

-- A long lease: no keepalive and no proof read happens during most tests.
client_options { ttl = 60 }

-- Asserts what calls of a lost |lock| return; |why| is in the messages.
local function assert_lost(lock, why)
  assert.same({ false, "lost" }, { lock:held() })
  assert.equal(0, lock:remaining())
  assert.matches(why, assert_fails("lost", lock:check()), 1, true)
  assert.matches(why, assert_fails("lost", lock:put(prefix .. "data", "v")), 1, true)
  assert.is_nil(etcd:get(prefix .. "data"))
  assert_fails("lost", lock:get(prefix .. "data"))
  assert_fails("lost", lock:delete(prefix .. "data"))
  assert_fails("lost", lock:txn { { "put", prefix .. "data", "v" } })
  assert.matches("(lost)", tostring(lock), 1, true)
  assert.matches(why, assert_fails("lost", lock:unlock()), 1, true)
  assert_fails("not_held", lock:unlock())
  assert.same({ false, "lost" }, { lock:held() })
end

-- Makes calls of |client| that do not concern the lock, for |seconds|.
local function work(seconds)
  local deadline = wait.now() + seconds
  repeat client:ping() until wait.now() >= deadline
end

describe("a lock", function()
  -- For each way to end a hold: a function that ends it, the reason of the loss, and what the
  -- messages contain.
  local ENDS = {
    ["its key was deleted"] = { function(lock) etcd:del(lock:key()) end, "deleted", "deleted" },
    ["its key was overwritten"] = {
      function(lock) etcd:put(lock:key(), "somebody else's") end, "replaced", "overwritten",
    },
    ["its key was put on another lease"] = { function(lock)
      local lease = etcd:grant(60)
      finally(function() etcd:revoke(lease) end)
      etcd:put(lock:key(), "x", lease)
    end, "replaced", "overwritten" },
  }

  for what, row in pairs(ENDS) do
    local end_hold, reason, why = (table.unpack or unpack)(row)
    it(("is lost with the reason %q and free after %s"):format(reason, what), function()
      local lock = assert(client:lock "a")
      end_hold(lock)
      assert.equal(reason, lock:wait_lost(5))
      assert_lost(lock, why)
      wait.eventually(function() return client:stats().lost == 1 end)
      assert.is_true(assert(other:lock("a", { timeout = 5 })):unlock())
      etcd:await_keys(prefix, 0)
    end)
  end

  it('is lost with the reason "revoked" or "deleted" after its lease was revoked', function()
    local lock = assert(client:lock "a")
    etcd:revoke(lock:lease())
    local reason = lock:wait_lost(5)
    assert.is_true(reason == "revoked" or reason == "deleted", reason)
    assert_lost(lock, reason == "revoked" and "lease ended" or "deleted")
  end)

  it("is not lost after its value was changed on the same lease", function()
    local lock = assert(client:lock "a")
    wait.eventually(function() return client:stats().watches == 1 end, 5, "the watch")
    etcd:put(lock:key(), "x", lock:lease())
    assert_fails("timeout", lock:wait_lost(0.3))
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it('returns "lost" from each guarded call and from unlock right after break_lock', function()
    local calls = {
      function(lock) return lock:put(prefix .. "data", "v") end,
      function(lock) return lock:get(prefix .. "data") end,
      function(lock) return lock:delete(prefix .. "data") end,
      function(lock) return lock:txn { { "put", prefix .. "data", "v" } } end,
      function(lock) return lock:check() end,
      function(lock) return lock:unlock() end,
    }
    -- The client has probably not received the watch event of the deletion yet. So the guard in the
    -- transaction must stop the call.
    for i = 1, 20 * #calls do
      local lock = assert(client:lock "a")
      assert.is_true(other:break_lock("a", lock:token()))
      assert_fails("lost", calls[i % #calls + 1](lock))
      assert.is_false((lock:held()))
      lock:unlock()
    end
    assert.is_nil(etcd:get(prefix .. "data"))
  end)

  it("is acquired at the first attempt by an idle client aware of its lease's end", function()
    local idle = connect { ttl = 3 }
    assert.is_true(assert(idle:lock "a"):unlock())
    etcd:revoke(idle:lease())
    wait.eventually(function() return not idle:lease() end, 3, "the news")
    local lock = assert(idle:lock("a", { timeout = 5 }))
    assert.is_true(lock:check())
    assert.equal(0, idle:stats().failed_attempts)
  end)

  it("stays lost after a later acquisition created the same key", function()
    local lock = assert(client:lock "a")
    etcd:del(lock:key())
    assert.equal("deleted", lock:wait_lost(5))
    local again = assert(client:lock("a", { timeout = 5 }))
    assert.equal(lock:key(), again:key())
    assert_lost(lock, "deleted")
    assert.is_true(again:check())
  end)
end)

describe("a waiter", function()
  local function start()
    local child = remote.start { endpoints = etcd:endpoints(), prefix = prefix }
    remote.send(child, "return client:lock('a', { timeout = 20 })")
    return child
  end

  local function second_in_line()
    return wait.eventually(function() return client:queue "a"[2] end, 10, "a waiter")
  end

  it('gets "lost" at its turn if its key was deleted before', function()
    clients.keep(assert(client:lock "a"))
    local child = start()
    etcd:del(second_in_line().key)
    -- The client does not watch the key of a waiter. So it finds the loss only by a read: a
    -- periodic one, or the one before the grant.
    local lock = client:lock "a"
    lock:unlock()
    lock:unlock()
    local results = remote.answer_of(child, 15)
    assert.equal("lost", results[3])
    assert.matches("key was deleted during the wait; call again$", results[2])
    child:wait()
  end)

  -- Regression 312. The call failed with "lost", for example after an outage for longer than the
  -- TTL: most commands that waited in `etcdlock run` then exited.
  it("waits again, at the end of the queue, after its lease has ended", function()
    local told = {}
    local waiting = connect { log = function(event) told[#told + 1] = event end }
    local holder = assert(client:lock "a")
    local asked = assert(waiting:lock_async "a")
    local token = second_in_line().token
    local behind = assert(connect():lock_async "a")
    wait.eventually(function() return client:queue "a"[3] end, 5, "the third")
    etcd:revoke(waiting:lease())
    wait.eventually(function()
      local last = client:queue "a"[3]
      return last and last.token > token
    end, 5, "the new key")
    assert.is_true(holder:unlock())
    clients.assert_one_after_the_other { behind, asked }
    local requeued = {}
    for _, event in ipairs(told) do
      if event.event == "requeued" then requeued[#requeued + 1] = event end
    end
    assert.equal(1, #requeued)
    assert.same({ prefix .. "a", "lock", "warn" },
      { requeued[1].name, requeued[1].mode, requeued[1].level })
    assert.matches('^etcdlock: lock "' .. prefix .. "a\": the client's lease has ended during the "
      .. "wait; it waits again, at the end of the queue", tostring(requeued[1]))
  end)

  it("whose lease has ended fails at the end of its timeout", function()
    clients.keep(assert(client:lock "a"))
    local waiting = connect()
    local asked = assert(waiting:lock_async("a", { timeout = 2 }))
    local from = wait.now()
    second_in_line()
    etcd:revoke(waiting:lease())
    assert_fails("timeout", clients.ended(asked))
    assert.is_true(wait.now() - from < 2.25 + wait.SLACK)
  end)
end)

describe("on_lost", function()
  it("calls its handler once, within a later call, with the lock and the reason", function()
    local calls = {}
    local lock = assert(client:lock "a")
    assert.is_true(lock:on_lost(function(...) calls[#calls + 1] = { ... } end))
    etcd:del(lock:key())
    wait.sleep(0.5)
    assert.same({}, calls)
    assert(client:try_lock "b")
    assert.equal(1, #calls)
    assert.equal(lock, calls[1][1])
    assert.same({ "deleted" }, { calls[1][2] })
    work(0.2)
    lock:held()
    lock:unlock()
    assert.equal(1, #calls)
  end)

  it("calls a handler only once if another one is registered after the loss", function()
    local calls = {}
    local lock = assert(client:lock("a", { max_hold = 0.1 }))
    lock:on_lost(function() calls[#calls + 1] = "early" end)
    lock:wait_lost(5)
    lock:on_lost(function() calls[#calls + 1] = "late" end)
    assert.same({ "early", "late" }, calls) -- at once, because the lock is already lost
    assert.is_false((lock:held()))
    work(0.1)
    assert.same({ "early", "late" }, calls)
  end)

  it("calls no handler after unlock or after close of the client", function()
    local lock = assert(client:lock "a")
    lock:on_lost(error)
    lock:unlock()
    local closed = assert(client:lock "b")
    closed:on_lost(error)
    work(0.1)
    client:close()
    assert.is_false((closed:held()))
    assert_fails("closed", closed:wait_lost(1))
  end)

  it("allows its handler to acquire the lock again", function()
    local again
    local lock = assert(client:lock("a", { max_hold = 0.1 }))
    lock:on_lost(function() again = assert(client:lock("a", { timeout = 5 })) end)
    wait.eventually(function() return not lock:held() end)
    assert.is_true(again:check())
    assert_fails("lost", lock:unlock())
    assert.is_true(again:unlock())
  end)

  it("raises a handler's error from a waiting lock call, which leaves the queue", function()
    local object = {}
    local lock = assert(client:lock("a", { max_hold = 0.2 }))
    lock:on_lost(function() error(object) end)
    clients.keep(assert(other:lock "b"))
    local ok, caught = pcall(client.lock, client, "b", { timeout = 10 })
    assert.is_false(ok)
    assert.equal(object, caught)
    wait.eventually(function() return #client:queue "b" == 1 end)
    assert.is_false((lock:held()))
  end)
end)

describe("wait_lost", function()
  it("never returns before its timeout, at any fraction of a second", function()
    local lock = assert(client:lock "a")
    wait.sleep(0.05) -- by then the I/O thread drives the loop, in most cases
    for _ = 1, 11 do
      local from = wait.now()
      assert_fails("timeout", lock:wait_lost(0.1))
      assert.is_true(wait.now() - from >= 0.099)
    end
  end)

  it("returns the same reason from every call", function()
    local lock = assert(client:lock("a", { max_hold = 0.1 }))
    assert.equal("max_hold", lock:wait_lost())
    assert.equal("max_hold", lock:wait_lost())
    assert.equal("max_hold", lock:wait_lost(0))
  end)

  it('returns "closed" after close of the client', function()
    local lock = assert(client:lock "a")
    client:close()
    assert_fails("closed", lock:wait_lost())
    assert_fails("closed", lock:unlock())
    assert_fails("not_held", lock:unlock())
  end)
end)

-- Regression 062. An error in an on_lost handler of one lock ended the call before the handlers of
-- other lost locks had run. If the program made no further call, these handlers never ran.
describe("on_lost handlers of several lost locks that raise errors", function()
  local LOCKS = 5
  local locks, calls

  -- Registers two handlers for each lock. Each handler raises an error with its number.
  before_each(function()
    locks, calls = {}, {}
    for i = 1, LOCKS do locks[i] = assert(client:lock("a" .. i)) end
    for i = 1, 2 * LOCKS do
      locks[(i + 1) % LOCKS + 1]:on_lost(function()
        calls[#calls + 1] = i
        error({ i })
      end)
    end
  end)

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

  it("all run in a call of held", function()
    lose_all()
    assert_raises_first(locks[3].held, locks[3])
    for _, lock in ipairs(locks) do assert.same({ false, "lost" }, { lock:held() }) end
  end)

  it("all run in a call of lock", function()
    lose_all()
    assert_raises_first(client.lock, client, "b")
    assert.is_true(assert(client:lock "b"):unlock())
  end)

  it("all run in wait_lost", function()
    etcd:revoke(locks[1]:lease())
    for _, lock in ipairs(locks) do
      wait.eventually(function() return not lock._core:left() end, 5, "its loss")
    end
    assert_raises_first(locks[1].wait_lost, locks[1], 5)
  end)

  it("run in the order in which their locks were first watched", function()
    lose_all()
    assert.is_false(pcall(client.lock, client, "b"))
    assert.same({ 1, 6, 2, 7, 3, 8, 4, 9, 5, 10 }, calls)
  end)
end)
