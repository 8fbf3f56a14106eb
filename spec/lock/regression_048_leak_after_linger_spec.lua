-- The handle of a lock that was released with linger still referred to the lock of the core. If a
-- later hold took over the key and leaked, the lock stayed held for as long as the program kept the
-- first handle.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local connect = clients.connector { endpoints = suite.endpoints(), prefix = suite.prefix() }

after_each(clients.close_all)

it("regression 048: a leaked lock is released while an earlier handle is kept", function()
  local client = connect()
  local first = assert(client:lock("a", { linger = 60 }))
  local token, key, lease = first:token(), first:key(), first:lease()
  assert.is_true(first:unlock())
  assert.equal(token, (function() return assert(client:lock("a", { linger = 60 })):token() end)())
  local other = assert(client:lock("a", { owner = "somebody else", timeout = 5 }))
  assert.is_true(other:token() > token)
  assert.same({ token, key, lease }, { first:token(), first:key(), first:lease() })
  assert.matches("%(not_held%)$", tostring(first))
end)
