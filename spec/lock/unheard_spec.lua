-- Requests for a lock that etcd has carried out, and whose answers nobody has heard, or
-- not yet; and those that etcd was told of too late.

local clients = require "spec.support.harness.clients"
local rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local STATUS = rows.STATUS
local connect = clients.connector { prefix = prefix, ttl = 60 }
local server, client, other

before_each(function()
  server = clients.scripted(etcd:endpoint())
  client = connect { endpoints = server:endpoint() }
  other = connect { endpoints = etcd:endpoint() }
  assert(client:lock "first"):unlock()
end)

after_each(clients.close_all)

-- Waits until etcd has been asked |count| things more than |before|.
local function await_asked(before, count)
  wait.eventually(function() return server:calls "Txn" >= before + count end, 5, "requests")
end

local function await_lock(asked)
  local lock
  wait.eventually(function()
    lock = asked:step()
    return lock
  end, 5, "a lock")
  return lock
end

describe("an enqueue that etcd has carried out, and nobody heard of,", function()
  it("takes nothing that somebody else holds when it is asked for again", function()
    local held = assert(other:lock "a")
    local before = server:calls "Txn"
    server:answer("Txn", "after", STATUS.UNAVAILABLE, "etcdserver: request timed out", 1)
    local asked = assert(client:lock_async "a")
    await_asked(before, 3) -- twice the same, and a look
    wait.sleep(0.2)
    assert.is_false((asked:step()))
    assert.equal(2, #other:queue "a")
    assert.is_true(held:unlock())
    local lock = await_lock(asked)
    assert.is_true(lock:token() > held:token())
    assert.is_true(lock:unlock())
    assert.equal(0, #etcd:keys(prefix))
  end)

  it("holds what it took when it is asked for again", function()
    server:answer("Txn", "after", STATUS.UNAVAILABLE, "etcdserver: request timed out", 1)
    local lock = assert(client:lock("a", { timeout = 5 }))
    assert.is_true(lock:check())
    assert.equal(1, #etcd:keys(prefix))
    assert.is_true(lock:unlock())
  end)
end)

describe("a release that etcd has carried out, and nobody heard of,", function()
  it("is a release: what ran under the lock ran under it", function()
    local results = { client:with_lock("a", function()
      server:answer("Txn", "never", STATUS.UNAVAILABLE)
      return "done"
    end) }
    assert.same({ true, "done" }, results)
    server:pass()
    etcd:await_keys(prefix, 0)
  end)
end)

describe("a key that may come when nobody waits for it any more", function()
  it("ends with its lease as soon as nobody needs that", function()
    server:answer("Txn", "late", STATUS.RESOURCE_EXHAUSTED,
      "etcdserver: mvcc: database space exceeded")
    clients.assert_fails("no_space", client:lock "a")
    server:pass()
    wait.eventually(function() return #etcd:leases() == 0 end, 5, "the end of the lease")
    assert.equal(1, server:deliver "Txn")
    assert.same({}, etcd:keys(prefix))
    assert(client:lock("a", { timeout = 5 })):unlock()
  end)
end)

describe("those who ask on a lease that has ended", function()
  it("get another, although a renewal of the old one is out", function()
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

  it("keep their order when there is another", function()
    local asked, got = {}, {}
    server:hold_back "Txn"
    local before = assert(client:lock_async "b") -- behind which the others leave
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

describe("a writer who only reads on", function()
  it("hands nothing on where the next writer here has given up, but isn't gone yet", function()
    assert(other:lock "first"):unlock() -- who has connected by then
    local patient = connect { endpoints = server:endpoint(), handoff_time = 60 }
    local writer = assert(patient:write_lock "a")
    assert.is_true(writer:downgrade())
    clients.await_watched(patient, writer)
    local next_one = clients.ask(patient, "write", "a")
    etcd:await_keys(prefix, 3) -- and the note
    local last = clients.ask(patient, "write", "a")
    clients.await_watched(patient, writer)
    server:hold_back "Txn"
    assert.is_true(next_one:cancel())
    clients.await_held(server, patient)
    etcd:await_keys(prefix, 2)
    local reader = assert(other:read_lock("a", { timeout = 5 }))
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

describe("a semaphore behind a slow etcd", function()
  local slow, theirs

  before_each(function()
    slow, theirs = assert(client:semaphore("pool", 1)), assert(other:semaphore("pool", 1))
  end)

  it("gives a permit that it has given, whoever has come since, when it is asked again", function()
    server:hold_back "Txn"
    local asked = assert(slow:lock_async { timeout = 0 })
    etcd:await_keys(prefix, 1)
    local behind = assert(theirs:lock_async { owner = {} })
    etcd:await_keys(prefix, 2)
    local lock = clients.granted(asked) -- when the first answer isn't waited for any longer
    clients.assert_wait(behind)
    assert.is_true(lock:unlock())
    assert.is_true(clients.granted(behind):unlock())
  end)

  it("counts nobody twice who goes while it looks", function()
    local first, ahead = assert(theirs:lock()), {}
    for i = 1, 2 do
      local third = assert(connect({ endpoints = etcd:endpoint() }):semaphore("pool", 1))
      ahead[i] = assert(third:lock_async { owner = {} })
      etcd:await_keys(prefix, i + 1)
    end
    local asked = assert(slow:lock_async())
    etcd:await_keys(prefix, 4)
    clients.assert_wait(ahead[1], ahead[2], asked)
    -- It looks because something has come before its new watch, and once more, through the
    -- quorum, because something has come since.
    server:hold_back "Txn"
    etcd:put(prefix .. "noise", "x")
    server:interrupt("Watch", STATUS.UNAVAILABLE, "etcdserver: no leader")
    clients.await_held(server, client)
    assert.is_true(first:unlock())
    first = clients.granted(ahead[1])
    clients.assert_wait(asked) -- for a time in which that is told
    server:hold_back "Txn"
    server:tell "Txn"
    clients.await_held(server, client)
    assert.is_true(first:unlock())
    first = clients.granted(ahead[2])
    clients.assert_wait(asked)
    server:tell "Txn"
    clients.assert_wait(asked)
    assert.is_true(first:unlock())
    -- Not by the look that is made every ten seconds.
    wait.eventually(function() return asked:step() end, 1, "its turn")
    assert.is_true(asked:step():unlock())
    etcd:del(prefix .. "noise")
  end)
end)
