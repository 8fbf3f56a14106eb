-- When the release of the lock failed, with_lock returned the same as if its function had never
-- run. A caller that then repeated the call did the work twice. The results of the function were
-- lost.

local clients = require "spec.support.harness.clients"
local error_rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"

local prefix = suite.prefix()
local assert_ran = clients.assert_ran
local server, client

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix })
end)

after_each(clients.close_all)

it("regression 043: with_lock returns closed and fn's results if fn closes the client", function()
  local _, result = assert_ran("closed", client:with_lock("a", function()
    client:close()
    return "computed"
  end))
  assert.equal("computed", result)
end)

it("regression 043: with_lock returns denied and fn's results if etcd denies unlock", function()
  local message, result = assert_ran("denied", client:with_lock("a", function()
    server:answer("Txn", "before", error_rows.STATUS.PERMISSION_DENIED,
      "etcdserver: permission denied")
    return "computed"
  end))
  assert.matches("permission denied", message)
  assert.equal("computed", result)
  server:pass()
end)

it("regression 043: with_lock returns denied and does not run fn if the lock is denied", function()
  server:answer("Txn", "before", error_rows.STATUS.PERMISSION_DENIED,
    "etcdserver: permission denied")
  clients.assert_fails("denied", client:with_lock("a", error))
  server:pass()
end)
