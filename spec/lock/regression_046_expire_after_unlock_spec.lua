-- A lock was released with linger, and a later hold took over its key. expire of the released lock
-- ended the later hold.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local connect = clients.connector { endpoints = suite.endpoints(), prefix = suite.prefix() }

after_each(clients.close_all)

it("regression 046: expire after unlock returns not_held and does not end a later hold", function()
  local client = connect()
  local first = assert(client:lock("a", { linger = 60 }))
  assert.is_true(first:unlock())
  local second = assert(client:lock("a", { linger = 60 }))
  clients.assert_fails("not_held", first:expire(0.01))
  clients.assert_fails("timeout", second:wait_lost(0.1))
  assert.is_true(second:expire(0.01))
  assert.equal("max_hold", second:wait_lost(5))
end)
