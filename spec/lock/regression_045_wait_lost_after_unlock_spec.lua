-- A lock was released with linger, and a later hold took over its key. wait_lost of the released
-- lock waited for the end of the later hold.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local connect = clients.connector { endpoints = suite.endpoints(), prefix = suite.prefix() }

after_each(clients.close_all)

it("regression 045: wait_lost after unlock returns not_held despite a later hold", function()
  local client = connect()
  local first = assert(client:lock("a", { linger = 60 }))
  assert.is_true(first:unlock())
  local second = assert(client:lock("a", { linger = 60 }))
  clients.assert_fails("not_held", first:wait_lost(1))
  clients.assert_fails("timeout", second:wait_lost(0))
  assert.is_true((second:held()))
end)
