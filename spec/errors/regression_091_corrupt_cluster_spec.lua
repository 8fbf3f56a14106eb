-- An etcd with a CORRUPT alarm refuses each write before it applies it. The client took these
-- refusals for an outage: within 14 s it requested 50 leases, and revoked 76 that did not exist.

local clients = require "spec.support.harness.clients"
local rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()
local server, client

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 60 })
end)

after_each(clients.close_all)

local function corrupt()
  for _, method in ipairs { "Txn", "LeaseGrant", "LeaseRevoke" } do
    server:answer(method, "before", rows.STATUS.DATA_LOSS, "etcdserver: corrupt cluster")
  end
end

local function assert_refused(...)
  assert.matches("corrupt cluster", clients.assert_fails("unavailable", ...), 1, true)
end

describe("regression 091: in a corrupt cluster,", function()
  it("lock fails after one request for a lease, and revokes none", function()
    corrupt()
    local from = wait.now()
    assert_refused(client:lock("a", { timeout = 5 }))
    assert.is_true(wait.now() - from < 4, wait.now() - from)
    assert.equal(1, server:calls "LeaseGrant")
    assert.equal(0, server:calls "LeaseRevoke")
    server:pass()
    assert.is_true(assert(client:lock("a", { timeout = 20 })):unlock())
  end)

  it("lock fails after one request for a place in the queue, and keeps its lease", function()
    assert.is_true(assert(client:lock "a"):unlock())
    corrupt()
    assert_refused(client:lock("a", { timeout = 5 }))
    assert.equal(1, server:calls "LeaseGrant")
    assert.equal(0, server:calls "LeaseRevoke")
    server:pass()
    assert.is_true(assert(client:lock("a", { timeout = 20 })):unlock())
  end)
end)
