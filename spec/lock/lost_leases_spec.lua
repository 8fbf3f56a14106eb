-- Tests the lease of a lost hold, and the loss of a lease with many holds.
-- Needs: one plain member.

-- Regression 064. close revoked the lease of a lost hold, so the next owner got the lock before the
-- lock delay was over. A keepalive during the lock delay had the same effect if its answer had TTL
-- 0. A deposed leader of etcd may send such an answer while the lease lives.
local TTL, DELAY = 2, 5 -- seconds
local other

scripted_client { ttl = TTL, lock_delay = DELAY }

before_each(function() other = connect { elsewhere = true, ttl = 30, lock_delay = NONE } end)

after_each(clear_etcd)

-- Makes all keepalives fail until server:pass.
local function stop_keepalives()
  server:answer("LeaseKeepAlive", "before", error_rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
  server:interrupt("LeaseKeepAlive", error_rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
end

-- Takes the lock "a" and loses it because no keepalive is answered. Returns the time before which
-- no other owner may have the lock.
local function lose()
  local lock = assert(client:lock "a")
  stop_keepalives()
  local over = wait.now() + select(2, lock:held()) + DELAY
  assert.equal("expired", lock:wait_lost(10))
  return over
end

-- Asserts that |asked| gets its lock after the time |over|, and at most 2 s later (more on a busy
-- machine).
local function assert_granted_after(over, asked)
  local lock = clients.granted(asked)
  local now = wait.now()
  assert.is_true(now >= over, ("%.2f s too soon"):format(over - now))
  assert.is_true(now <= over + 2 + wait.SLACK, ("%.2f s late"):format(now - over))
  assert.is_true(lock:unlock())
end

it("close during a lock delay keeps its lease, and releases other locks and waits", function()
  local blocked = assert(other:lock "c")
  local over = lose()
  server:pass()
  local from = wait.now()
  clients.keep(assert(client:lock "b"))
  local waiter = assert(client:lock_async "c")
  wait.eventually(function() return #assert(other:queue "c") == 2 end, 5, "the wait")
  local asked = { other:lock_async "a", other:lock_async "b" }
  assert.is_true(wait.now() - from < DELAY / 2, "too slow for this test")
  local close_from = wait.now()
  client:close()
  assert.is_true(wait.now() - close_from < 0.5 + wait.SLACK, wait.now() - close_from)
  assert.equal("closed", select(3, clients.ended(waiter)))
  assert.is_true(clients.granted(asked[2]):unlock())
  wait.eventually(function() return #assert(other:queue "c") == 1 end, 5, "the end of the wait")
  assert.is_true(wait.now() < over, "the lock was released with the lease only")
  assert.is_true(blocked:unlock())
  assert_granted_after(over, asked[1])
end)

it("close after the lock delay of a lost hold revokes the lease", function()
  local over = lose()
  server:pass()
  wait.eventually(function() return wait.now() > over + 0.5 end, DELAY + 1, "the end of the delay")
  clients.assert_nothing_left(etcd, prefix, function()
    local from = wait.now()
    client:close()
    other:close()
    return from
  end)
end)

it("a process that ends after a lost hold leaves the lock delay", function()
  local child = remote.start {
    endpoints = suite.endpoint(), prefix = prefix, ttl = TTL, lock_delay = DELAY,
  }
  remote.take(child, "a")
  -- This is the earliest time: the last keepalive may be TTL / 3 old.
  local over = wait.now() + DELAY + 1
  local asked = assert(other:lock_async "a")
  child:kill "sigstop"
  wait.sleep(TTL + 0.2)
  child:kill "sigcont"
  assert.same({ "false" }, remote.ask(child, "return (lock:held())"))
  child:wait()
  clients.assert_wait(asked)
  assert_granted_after(over, asked)
end)

it("a false TTL of 0 during the lock delay does not revoke the lease", function()
  local over = lose()
  local asked = assert(other:lock_async "a")
  server:extend("LeaseKeepAlive", protobuf.number(3, 0), 1)
  wait.eventually(function() return client:lease() == nil end, 5, "the end of the session")
  clients.assert_wait(asked)
  assert_granted_after(over, asked)
end)

-- Regression 089. When a lease ended in etcd, or another cluster answered, the holds of a client
-- ended one after the other. For a moment, some were still "held" while others were already "lost".
describe("all holds of a client are lost at once", function()
  local COUNT = 1000

  -- Lets |client| take COUNT locks, and returns them.
  local function take_many(client)
    local locks = {}
    for i = 1, COUNT do
      locks[i] = assert(client:lock_async("a" .. i, { owner = i, timeout = 60 }))
    end
    for i = 1, COUNT do locks[i] = clients.granted(locks[i]) end
    return locks
  end

  -- Checks the locks again and again until one is lost. Returns how many locks that were checked
  -- after this one were still held, and the reasons of the losses.
  local function held_after_a_loss(locks)
    local held, is_lost, reasons = 0, false, {}
    local ends = wait.now() + 30
    repeat
      for _, lock in ipairs(locks) do
        local is_held = lock._core:left() ~= nil
        is_lost = is_lost or not is_held
        held = held + (is_lost and is_held and 1 or 0)
      end
    until is_lost or wait.now() > ends
    for _, lock in ipairs(locks) do reasons[lock:wait_lost(0) or "held"] = true end
    return held, reasons
  end

  it("if their lease ends in etcd", function()
    scripted_client { ttl = 6 }
    local locks = take_many(client)
    -- Five answers are changed, because the client ignores an answer that is late.
    server:extend("LeaseKeepAlive", protobuf.number(3, 0), 5)
    local held, reasons = held_after_a_loss(locks)
    assert.same({ 0, { revoked = true } }, { held, reasons })
  end)

  it("if another cluster answers", function()
    local etcd = Etcd.start()
    local client = clients.connector { endpoints = etcd:endpoint(), prefix = prefix, ttl = 60 } {}
    local locks = take_many(client)
    etcd:wipe(true)
    local asked = client._core:txn()
    asked:get "x"
    assert(asked:start(30))
    local held, reasons = held_after_a_loss(locks)
    assert.same({ 0, { cluster_changed = true } }, { held, reasons })
    assert_fails("lost", locks[1]:put("x", "1"))
    assert_fails("lost", locks[COUNT]:check())
  end)
end)
