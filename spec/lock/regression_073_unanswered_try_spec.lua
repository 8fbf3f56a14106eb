-- A try whose request etcd had not answered within 2 s returned "timeout" ("was not free"), if etcd
-- had answered another request of the client meanwhile. Nobody knew whether the lock was free.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()

after_each(clients.close_all)

it("regression 073: a try that etcd does not answer returns unavailable", function()
  local server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 30 })
  assert(assert(client:lock "a"):unlock())
  server:hold_back "Txn"
  local try, lock, message, code = assert(client:lock_async("a", { timeout = 0 })), nil, nil, nil
  wait.eventually(function()
    assert(client:ping())
    lock, message, code = try:step()
    return lock ~= false
  end, 10, "the try ends")
  clients.assert_fails("unavailable", lock, message, code)
  server:tell "Txn"
end)
