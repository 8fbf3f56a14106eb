-- `expire` of a lock that was left to linger, and that somebody else had taken again,
-- ended that one's hold.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local connect = clients.connector { endpoints = suite.endpoints(), prefix = suite.prefix() }

after_each(clients.close_all)

it("a lock that was let go of can't end the hold of whoever has it now", function()
  local client = connect()
  local first = assert(client:lock("a", { linger = 60 }))
  assert.is_true(first:unlock())
  local second = assert(client:lock("a", { linger = 60 }))
  clients.assert_fails("not_held", first:expire(0.01))
  clients.assert_fails("timeout", second:wait_lost(0.1))
  assert.is_true(second:expire(0.01))
  assert.equal("max_hold", second:wait_lost(5))
end)
