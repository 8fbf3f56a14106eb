-- Who waited for the loss of a lock that was left to linger, and that somebody else had
-- taken again, waited for the end of that one's hold.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local connect = clients.connector { endpoints = suite.endpoints(), prefix = suite.prefix() }

after_each(clients.close_all)

it("a lock that was let go of isn't held, whoever has it now", function()
  local client = connect()
  local first = assert(client:lock("a", { linger = 60 }))
  assert.is_true(first:unlock())
  local second = assert(client:lock("a", { linger = 60 }))
  clients.assert_fails("not_held", first:wait_lost(1))
  clients.assert_fails("timeout", second:wait_lost(0))
  assert.is_true((second:held()))
end)
