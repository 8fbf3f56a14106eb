-- What with_lock answered when its release failed looked as if the function had never run:
-- who repeats what was refused did the work twice, and what it had computed was lost.

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

it("it has run, though its client is closed", function()
  local _, result = assert_ran("closed", client:with_lock("a", function()
    client:close()
    return "computed"
  end))
  assert.equal("computed", result)
end)

it("it has run, though etcd refuses the release", function()
  local message, result = assert_ran("denied", client:with_lock("a", function()
    server:answer("Txn", "before", error_rows.STATUS.PERMISSION_DENIED,
      "etcdserver: permission denied")
    return "computed"
  end))
  assert.matches("permission denied", message)
  assert.equal("computed", result)
  server:pass()
end)

it("it has not, where the lock is refused", function()
  server:answer("Txn", "before", error_rows.STATUS.PERMISSION_DENIED,
    "etcdserver: permission denied")
  clients.assert_fails("denied", client:with_lock("a", error))
  server:pass()
end)
