-- Tests a client that loses its rights while it holds or waits, because its user is deleted or
-- its role loses the permission.
-- Needs: one plain member.

-- Seconds; as short as possible, because the tests wait until the lease ends.
local TTL = 2

local etcd

local function options(changes) return secured.options(etcd, prefix, changes) end

client_options(options)

local function ctl(...) secured.ctl(etcd, ...) end

-- Asserts that the hold |lock| of |client| is lost with its lease, and that the client sends at
-- most 20 requests.
local function assert_ends_quietly(client, lock)
  local before = client:stats().rpcs
  wait.eventually(function() return not lock:held() end, TTL + wait.SLACK, "loss")
  -- A client that retried without a limit would send many requests in this time.
  wait.sleep(0.5)
  local spent = client:stats().rpcs - before
  assert.is_true(spent <= 20, spent .. " requests")
end

setup(function() etcd = secured.start(prefix) end)

describe("a client with a deleted user", function()
  before_each(function() secured.add_user(etcd, "leaver") end)
  after_each(function()
    clients.close_all()
    etcd:ctl("user", "delete", "leaver")
    for _, lease in ipairs(etcd:leases()) do etcd:revoke(lease) end
  end)

  it('gets "unauthenticated", and its hold is lost after at most 20 requests', function()
    local client = connect { user = "leaver", ttl = TTL }
    local lock = assert(client:lock "a")
    ctl("user", "delete", "leaver")
    secured.assert_refused("unauthenticated", "password is wrong", wait.now(), client:lock "b")
    assert_ends_quietly(client, lock)
    assert.same({ false, "lost" }, { lock:held() })
    client:close()
    etcd:await_keys(prefix, 0, 10)
  end)

  it("keeps its hold and can lock again if the user is added again in time", function()
    local client = connect { user = "leaver", ttl = 10 }
    local lock = assert(client:lock "a")
    ctl("user", "delete", "leaver")
    assert.is_nil((client:lock("b", { timeout = 1 })))
    secured.add_user(etcd, "leaver")
    wait.eventually(function()
      local b, why = client:lock("b", { timeout = 1 })
      return b, why
    end, 5, "a lock with the user that is back")
    assert.is_true(lock:check())
  end)

  it('gets "unauthenticated" at once if the user is added with another password', function()
    local client = connect { user = "leaver" }
    assert(client:lock "a"):unlock()
    ctl("user", "delete", "leaver")
    secured.add_user(etcd, "leaver", "locks", "another")
    secured.assert_refused("unauthenticated", "password is wrong", wait.now(), client:lock "a")
  end)
end)

describe("a revoked permission", function()
  local function revoke()
    ctl("role", "revoke-permission", "--prefix=true", "locks", prefix)
  end

  local function grant()
    ctl("role", "grant-permission", "--prefix=true", "locks", "readwrite", prefix)
  end

  after_each(grant)

  it('ends a hold as "lost", with the cause, after at most 20 requests', function()
    local client = connect { ttl = TTL }
    wait.eventually(function()
      local lock = assert(client:lock "a")
      revoke()
      secured.assert_refused("denied", "permission denied", wait.now(), client:lock "b")
      assert_ends_quietly(client, lock)
      local message = assert_fails("lost", lock:check())
      grant()
      etcd:await_keys(prefix, 0, 10)
      assert(client:lock "a"):unlock()
      -- On a busy machine the hold may be lost for another reason.
      local is_said = message:find "denied"
      assert.is_truthy(is_said or message:find "did not run" or message:find "in time", message)
      return is_said
    end, 5, "a loss for the rights")
  end)

  it("makes a client retry a release at a low rate until it is granted again", function()
    local client = connect { ttl = 30 }
    local lock = assert(client:lock "a")
    revoke()
    assert.matches('^lock "' .. prefix .. 'a": .* for user "locker"; the user needs readwrite ',
      (assert_fails("denied", lock:unlock())))
    local before, from = client:stats().deletes, wait.now()
    wait.sleep(2.5)
    local count = client:stats().deletes - before
    assert.is_true(count >= 1 and count <= 4 * (wait.now() - from) / 2.5, count .. " times")
    grant()
    etcd:await_keys(prefix, 0, 10)
  end)

  it('ends a wait as "denied" if etcd refuses its watch; the holder keeps the lock', function()
    local server = clients.scripted(etcd:endpoint())
    local client = connect { endpoints = server:endpoint() }
    local other = connect { user = "root", password = secured.ROOT }
    local lock = assert(other:lock "a")
    local asked = assert(client:lock_async("a", { timeout = 30 }))
    wait.eventually(function() return client:stats().watches == 1 end, 5, "its watch")
    revoke()
    server:interrupt("Watch", error_rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
    assert.matches('watch of "' .. prefix .. 'a/[^"]*": .*permission denied for user "locker"',
      assert_fails("denied", clients.ended(asked)))
    assert.is_true(lock:check())
    grant()
    assert.is_true(lock:unlock())
    etcd:await_keys(prefix, 0, 10)
  end)

  it('ends a wait as "denied" when the holder unlocks', function()
    local client, other = connect(), connect { user = "root", password = secured.ROOT }
    local lock = assert(other:lock "a")
    local waiter = remote.start(options { ttl = TTL })
    remote.send(waiter, "return client:lock('a', { timeout = 20 })")
    wait.eventually(function() return #assert(client:queue "a") == 2 end)
    revoke()
    assert(lock:unlock())
    local results = remote.answer_of(waiter, 2)
    assert.same({ "nil", "denied" }, { results[1], results[3] })
    assert.matches("permission denied", results[2])
    waiter:wait()
    etcd:await_keys(prefix, 0, 10)
  end)
end)
