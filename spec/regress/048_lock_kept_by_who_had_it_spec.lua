-- A lock that was left to linger knew the core's lock still: whoever took that again and
-- dropped it, had it for as long as the first one was kept.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local connect = clients.connector { endpoints = suite.endpoints(), prefix = suite.prefix() }

after_each(clients.close_all)

it("a lock that was dropped is collected, though who had it before is kept", function()
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
