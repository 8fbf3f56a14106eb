-- If etcd was wiped but kept its cluster ID, a client that had connected before still sent its lock
-- call. The call left a lease and a key in the new data until the TTL was over.

local Etcd = require "spec.support.servers.etcd"
local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()

it("regression 044: a client from before a wipe of etcd leaves no key or lease after it", function()
  local etcd = Etcd.start()
  finally(function()
    clients.close_all()
    etcd:stop()
  end)
  local client = clients.connector { endpoints = etcd:endpoint(), prefix = prefix, ttl = 300 } ()
  for _ = 1, 20 do assert(client:lock "before"):unlock() end -- revisions that the new data lacks
  etcd:wipe()
  local function assert_refused(...)
    assert.matches("connect anew", clients.assert_fails("conflict", ...), 1, true)
  end
  assert_refused(client:lock "a")
  assert_refused(client:lock("a", { timeout = 3 }))
  assert_refused(client:try_lock "a")
  assert_refused(client:queue "a")
  assert_refused(client:ping())
  wait.eventually(function() return #etcd:keys(prefix) == 0 and #etcd:leases() == 0 end, 2)
end)
