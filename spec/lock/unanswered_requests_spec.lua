-- Tests requests that etcd carries out while their answers are lost or late, and requests that
-- reach etcd late.
-- Needs: one plain member.

local STATUS = error_rows.STATUS
scripted_client { ttl = 60 }

before_each(function() assert(client:lock "first"):unlock() end)

describe("an enqueue with a lost answer", function()
  it("is repeated without a second entry, and waits for the holder", function()
    local held = assert(other:lock "a")
    local before = server:calls "Txn"
    server:answer("Txn", "after", STATUS.UNAVAILABLE, "etcdserver: request timed out", 1)
    local asked = assert(client:lock_async "a")
    -- the enqueue twice, and a read
    wait.eventually(function() return server:calls "Txn" >= before + 3 end, 5, "requests")
    wait.sleep(0.2)
    assert.is_false((asked:step()))
    assert.equal(2, #other:queue "a")
    assert.is_true(held:unlock())
    local lock = clients.granted(asked)
    assert.is_true(lock:token() > held:token())
    assert.is_true(lock:unlock())
    assert.equal(0, #etcd:keys(prefix))
  end)
end)

describe("a release with a lost answer", function()
  it("counts as a release: with_lock returns true and the function's results", function()
    local results = { client:with_lock("a", function()
      server:answer("Txn", "never", STATUS.UNAVAILABLE)
      return "done"
    end) }
    assert.same({ true, "done" }, results)
    server:pass()
    etcd:await_keys(prefix, 0)
  end)
end)

describe("a late enqueue of a failed acquisition", function()
  it("creates no key, because the client has ended the lease", function()
    server:answer("Txn", "late", STATUS.RESOURCE_EXHAUSTED,
      "etcdserver: mvcc: database space exceeded")
    assert_fails("no_space", client:lock "a")
    server:pass()
    wait.eventually(function() return #etcd:leases() == 0 end, 5, "the end of the lease")
    assert.equal(1, server:deliver "Txn")
    assert.same({}, etcd:keys(prefix))
    assert(client:lock("a", { timeout = 5 })):unlock()
  end)
end)

describe("acquisitions on a revoked lease", function()
  it("get a new lease, although a keepalive of the old one is unanswered", function()
    server:answer("LeaseKeepAlive", "never", STATUS.UNAVAILABLE)
    local short = connect { endpoints = server:endpoint(), ttl = 3 }
    for _ = 1, 3 do
      assert(short:lock("a", { timeout = 5 })):unlock()
      local before = short:stats().keepalives
      wait.eventually(function() return short:stats().keepalives > before end, 5, "a renewal")
      etcd:revoke(short:lease())
    end
    server:pass()
    local lock, before = assert(short:lock("a", { timeout = 5 })), short:stats().keepalives
    wait.eventually(function() return short:stats().keepalives > before + 2 end, 5, "renewals")
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
  end)

  it("keep their order on the new lease", function()
    local asked, got = {}, {}
    server:hold_back "Txn"
    local before = assert(client:lock_async "b") -- the requests below leave after this one
    clients.await_held(server, client)
    etcd:revoke(client:lease())
    for i = 1, 3 do asked[i] = assert(client:lock_async("a", { owner = i })) end
    server:tell "Txn"
    wait.eventually(function()
      for i, one in ipairs(asked) do
        local lock = one:step()
        if lock and lock:count() > 0 then
          got[#got + 1] = i
          lock:unlock()
        end
      end
      return #got == 3
    end, 10, "all three")
    assert.same({ 1, 2, 3 }, got)
    before:cancel()
  end)
end)

describe("a downgraded write lock", function()
  it("is not handed off to a writer while the cancel of another is unanswered", function()
    assert(other:lock "first"):unlock() -- connects |other|
    local patient = connect { endpoints = server:endpoint(), handoff_time = 60 }
    local writer = assert(patient:write_lock "a")
    assert.is_true(writer:downgrade())
    clients.await_watched(patient, writer)
    local reader = assert(other:read_lock("a", { timeout = 5 }))
    local next_one = clients.ask(patient, "write", "a")
    etcd:await_keys(prefix, 4) -- three entries, and the marker of the downgrade
    local last = clients.ask(patient, "write", "a")
    clients.await_watched(patient, writer)
    server:hold_back "Txn"
    assert.is_true(next_one:cancel())
    clients.await_held(server, patient)
    writer._core:release()
    clients.assert_wait(last)
    server:tell "Txn"
    clients.assert_wait(last)
    assert.is_true(reader:check())
    assert.is_true(reader:unlock())
    assert.is_true(clients.granted(last):unlock())
    etcd:await_keys(prefix, 0)
  end)
end)

describe("a writer that waits for a reader of the same client", function()
  -- Regression 225. All writes of a batch have one revision, so a watch that begins after the put
  -- would not report a delete of the same batch.
  it("does not have its key put in the revision in which the reader's key is deleted", function()
    local reader = assert(client:read_lock "a")
    server:hold_back("Txn", 2)
    local others = { assert(client:lock_async "x1"), assert(client:lock_async "x2") }
    local asked = clients.ask(client, "write", "a") -- leaves after an answer, with the delete
    reader._core:release()
    wait.eventually(function() return server:held "Txn" == 2 end, 5, "answers")
    server:tell "Txn"
    local writer = clients.granted(asked)
    local function reader_key(rev)
      return (etcd:ctl("get", "--keys-only", "--rev", ("%d"):format(rev), reader:key()))
    end
    assert.equal(reader_key(writer:token() - 1), reader_key(writer:token()))
    assert.is_true(writer:unlock())
    for i = 1, 2 do assert.is_true(clients.granted(others[i]):unlock()) end
  end)
end)

describe("a semaphore with late answers", function()
  local slow, theirs

  before_each(function()
    slow, theirs = assert(client:semaphore("pool", 1)), assert(other:semaphore("pool", 1))
  end)

  it("grants a try that is repeated, despite a waiter that came in between", function()
    server:hold_back "Txn"
    local asked = assert(slow:lock_async { timeout = 0 })
    etcd:await_keys(prefix, 1)
    local behind = assert(theirs:lock_async { owner = {} })
    etcd:await_keys(prefix, 2)
    local lock = clients.granted(asked) -- after the client has repeated the request
    clients.assert_wait(behind)
    assert.is_true(lock:unlock())
    assert.is_true(clients.granted(behind):unlock())
  end)

  it("counts each release once if it happens between two reads of a waiter", function()
    local first, ahead = assert(theirs:lock()), {}
    for i = 1, 2 do
      local third = assert(connect({ endpoints = etcd:endpoint() }):semaphore("pool", 1))
      ahead[i] = assert(third:lock_async { owner = {} })
      etcd:await_keys(prefix, i + 1)
    end
    local asked = assert(slow:lock_async())
    etcd:await_keys(prefix, 4)
    clients.assert_wait(ahead[1], ahead[2], asked)
    -- The client reads because a change came before its new watch. It reads again, through the
    -- quorum, because another change comes during the first read.
    server:hold_back "Txn"
    etcd:put(prefix .. "noise", "x")
    server:interrupt("Watch", STATUS.UNAVAILABLE, "etcdserver: no leader")
    clients.await_held(server, client)
    assert.is_true(first:unlock())
    first = clients.granted(ahead[1])
    clients.assert_wait(asked) -- takes long enough for the watch event
    server:hold_back "Txn"
    server:tell "Txn"
    clients.await_held(server, client)
    assert.is_true(first:unlock())
    first = clients.granted(ahead[2])
    clients.assert_wait(asked)
    server:tell "Txn"
    clients.assert_wait(asked)
    assert.is_true(first:unlock())
    -- On a quiet machine this takes less than 1 s: the next periodic read may come after 60 s.
    assert.is_true(assert(clients.ended(asked, 1)):unlock())
    etcd:del(prefix .. "noise")
  end)
end)

-- Regression 015. etcd applied an enqueue of unknown outcome more than 8 s later, when the client
-- had stopped looking for the key. The key stayed in the queue for as long as the client lived, and
-- blocked other clients.
describe("keys of late enqueues", function()
  local LATE = 9 -- seconds after which etcd applies the enqueues

  before_each(function() scripted_client { ttl = 20 } end)

  it("are removed while their client goes on", function()
    local busy = assert(client:lock "busy")
    local count = 50
    -- This error leaves the outcome unknown, and the client does not repeat the request.
    server:answer("Txn", "late", error_rows.STATUS.RESOURCE_EXHAUSTED,
      "etcdserver: mvcc: database space exceeded")
    for i = 1, count do
      assert_fails("no_space", client:lock("late/" .. i))
    end
    server:pass()
    wait.sleep(LATE)
    assert.is_true(server:deliver "Txn" >= count)
    assert.equal(count, #etcd:keys(prefix .. "late/"))
    etcd:await_keys(prefix .. "late/", 0, 20)
    assert.is_true(busy:check())
  end)
end)

-- Regression 063. If etcd answered other requests but not the request of try_lock in time, try_lock
-- returned "timeout", which is not one of its codes. If another owner of the client waited for etcd
-- as well, try_lock returned "locked".
describe("a try", function()
  -- Pings etcd with |client| until the pending lock |asked| is decided. Returns the results of
  -- |asked|.
  local function ended_beside_pings(asked)
    local lock, message, code
    wait.eventually(function()
      assert(client:ping())
      lock, message, code = asked:step()
      return lock ~= false
    end, 5, "the try ends")
    return lock, message, code
  end

  local NO_ANSWER = 'lock "' .. prefix .. 'a" was not acquired within 2 s: no answer from etcd '

  for _, mode in ipairs { "lock", "read_lock", "write_lock" } do
    it('of ' .. mode .. ' is "unavailable" without an answer', function()
      assert(client:lock "warm"):unlock()
      server:hold_back "Txn"
      local asked = assert(client[mode .. "_async"](client, "a", { timeout = 0 }))
      local message = assert_fails("unavailable", ended_beside_pings(asked))
      assert.matches(NO_ANSWER .. server.address, message, 1, true)
      server:tell "Txn"
      etcd:await_keys(prefix, 0, 10)
    end)
  end

  it('is "unavailable" if the release before it has no answer', function()
    local lock = clients.keep(assert(client:lock("a", { owner = "first" })))
    clients.await_watched(client, lock)
    server:hold_back "Txn"
    assert.is_true(lock._core:release()) -- unlock would wait for the answer
    clients.await_held(server, client)
    local asked = assert(client:lock_async("a", { timeout = 0, owner = "second" }))
    assert_fails("unavailable", ended_beside_pings(asked))
    server:tell "Txn"
    etcd:await_keys(prefix, 0, 10)
  end)

  it('is "unavailable" beside an owner that has no answer either', function()
    assert(client:lock "warm"):unlock()
    server:answer("Txn", "before", error_rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
    local first = assert(client:lock_async("a", { owner = "first" }))
    wait.eventually(function() return client:stats().failed_attempts > 0 end, 5, "a failed attempt")
    local message = assert_fails("unavailable", client:try_lock("a", { owner = "second" }))
    assert.matches("no leader", message, 1, true)
    server:pass()
    local lock = clients.granted(first)
    assert_fails("locked", client:try_lock("a", { owner = "second" }))
    assert.is_true(lock:unlock())
  end)

  it('is "locked" behind an owner that waits for another client', function()
    local lock = assert(other:lock "a")
    local first = assert(client:lock_async("a", { owner = "first" }))
    etcd:await_keys(prefix, 2)
    clients.assert_wait(first)
    server:answer("Txn", "before", error_rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
    assert_fails("locked", client:try_lock("a", { owner = "second" }))
    server:pass()
    assert.is_true(lock:unlock())
    assert.is_true(clients.granted(first):unlock())
  end)
end)

-- Regression 137. A client took its lingering lock again and again without a request, and noticed
-- another client only by a watch. If the watch was silent, the other client waited until its
-- timeout.
describe("a lock that lingers", function()
  local TTL = 5

  before_each(function() scripted_client { ttl = TTL } end)

  for _, mode in ipairs { "lock", "write_lock" } do
    it("passes to another client within TTL / 3 + 1 s, " .. mode, function()
      server:hold_back("Watch", 100)
      assert(client[mode](client, "a", { linger = 60 })):unlock()
      local pending = assert(other:lock_async("a", { timeout = 60 }))
      local from, taken, lock = wait.now(), 0, nil
      while not lock and wait.now() - from < 4 * TTL do
        local again = client["try_" .. mode](client, "a", { linger = 60 })
        if again then
          taken = taken + 1
          assert(again:unlock())
        end
        lock = pending:step()
      end
      assert.is_truthy(lock, ("taken %d times"):format(taken))
      assert.is_true(wait.now() - from < TTL / 3 + 1 + wait.SLACK)
      clients.keep(lock)
    end)
  end
end)

-- Regression 251. If a lock was held by another owner of the client until just before the timeout,
-- the wait failed with "unavailable": no answer from etcd, which had not been asked meanwhile.
it('a wait is "timeout" if another owner of the client held the lock until just before', function()
  local client = connect { endpoints = server.address, ttl = 60 }
  local held = assert(client:lock("a", { owner = "first" }))
  clients.await_watched(client, held)
  local asked = assert(client:lock_async("a", { owner = "second", timeout = 1.5 }))
  server:hold_back("Txn", 10)
  assert.is_false((asked:step()))
  wait.sleep(1)
  held._core:release()
  local message = assert_fails("timeout", clients.ended(asked))
  assert.matches('lock "' .. prefix .. 'a" was not free within 1.5 s', message, 1, true)
  server:tell "Txn"
end)
