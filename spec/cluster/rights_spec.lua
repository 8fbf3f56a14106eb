-- Rights that are taken away from one who holds or waits: a user that is
-- deleted, a role that is emptied.

local Scripted = require "spec.support.servers.scripted"
local clients = require "spec.support.harness.clients"
local remote = require "spec.support.programs.remote"
local rows = require "spec.support.harness.error_rows"
local secured = require "spec.support.servers.secured"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()
-- The shortest lease: the news is due when it ends.
local TTL = 2

local etcd

local function options(changes) return secured.options(etcd, prefix, changes) end

local connect = clients.connector(options)

local function ctl(...) secured.ctl(etcd, ...) end

-- |lock| of |client| ends by itself with its lease, without many requests.
local function assert_ends_quietly(client, lock)
  local before = client:stats().rpcs
  wait.eventually(function() return not lock:held() end, TTL + wait.SLACK, "loss")
  -- Whatever would be a storm goes on now.
  wait.sleep(0.5)
  local spent = client:stats().rpcs - before
  assert.is_true(spent <= 20, spent .. " requests")
end

setup(function() etcd = secured.start(prefix) end)
teardown(function() etcd:stop() end)
after_each(clients.close_all)

describe("a user that is deleted while it holds", function()
  before_each(function() secured.add_user(etcd, "leaver") end)

  after_each(function()
    clients.close_all()
    etcd:ctl("user", "delete", "leaver")
    for _, lease in ipairs(etcd:leases()) do etcd:revoke(lease) end
  end)

  it("is refused without a storm, and its lock ends for sure", function()
    local client = connect { user = "leaver", ttl = TTL }
    local lock = assert(client:lock "a")
    ctl("user", "delete", "leaver")
    secured.assert_refused("unauthenticated", "password is wrong", wait.now(), client:lock "b")
    assert_ends_quietly(client, lock)
    assert.same({ false, "lost" }, { lock:held() })
    client:close()
    etcd:await_keys(prefix, 0, 10)
  end)

  it("goes on when it is back", function()
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

  it("is refused at once when it is back with another password", function()
    local client = connect { user = "leaver" }
    assert(client:lock "a"):unlock()
    ctl("user", "delete", "leaver")
    secured.add_user(etcd, "leaver", "locks", "another")
    secured.assert_refused("unauthenticated", "password is wrong", wait.now(), client:lock "a")
  end)
end)

describe("a role that is taken away", function()
  local function revoke()
    ctl("role", "revoke-permission", "--prefix=true", "locks", prefix)
  end

  local function grant()
    ctl("role", "grant-permission", "--prefix=true", "locks", "readwrite", prefix)
  end

  after_each(grant)

  it("ends a hold for sure, says so, and makes no storm", function()
    local client = connect { ttl = TTL }
    wait.eventually(function()
      local lock = assert(client:lock "a")
      revoke()
      secured.assert_refused("denied", "permission denied", wait.now(), client:lock "b")
      assert_ends_quietly(client, lock)
      local message = clients.assert_fails("lost", lock:check())
      grant()
      etcd:await_keys(prefix, 0, 10)
      assert(client:lock "a"):unlock()
      -- Or a busy machine was what it was lost for.
      local is_said = message:find "denied"
      assert.is_truthy(is_said or message:find "stood still" or message:find "in time", message)
      return is_said
    end, 5, "a loss for the rights")
  end)

  it("has a release repeated, but not often, until it is given back", function()
    local client = connect { ttl = 30 }
    local lock = assert(client:lock "a")
    revoke()
    clients.assert_fails("denied", lock:unlock())
    local before, from = client:stats().deletes, wait.now()
    wait.sleep(2.5)
    local count = client:stats().deletes - before
    assert.is_true(count >= 1 and count <= 4 * (wait.now() - from) / 2.5, count .. " times")
    grant()
    etcd:await_keys(prefix, 0, 10)
  end)

  it("ends a wait whose watch is refused, and no other", function()
    local server = Scripted.start(etcd:endpoint())
    finally(function() server:stop() end)
    local client = connect { endpoints = server:endpoint() }
    local other = connect { user = "root", password = secured.ROOT }
    local lock = assert(other:lock "a")
    local asked = assert(client:lock_async("a", { timeout = 30 }))
    wait.eventually(function() return client:stats().watches == 1 end, 5, "its watch")
    revoke()
    server:interrupt("Watch", rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
    local results
    wait.eventually(function()
      results = { asked:step() }
      return results[1] == nil
    end, 5, "the end of the wait")
    assert.equal("denied", results[3])
    assert.matches('watch of "' .. prefix .. "a/", results[2], 1, true)
    assert.is_true(lock:check())
    grant()
    assert.is_true(lock:unlock())
    etcd:await_keys(prefix, 0, 10)
  end)

  it("ends a wait when its turn comes", function()
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
