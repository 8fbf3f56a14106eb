-- The client counted the older permit keys of a semaphore in 16 bits. If there were 65,536 older
-- keys, it counted 0 and took a permit. In this test the scripted server answers instead of etcd,
-- because etcd may need more than the 2 s of a try to list so many keys.
-- Needs: one plain member.

local clients = require "spec.support.harness.clients"
local protobuf = require "spec.support.servers.protobuf"
local suite = require "spec.support.harness.suite"

local prefix = suite.prefix()
local server, pool

before_each(function()
  local client
  server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 60 })
  assert(client:lock "warm"):unlock()
  pool = assert(client:semaphore("pool", 1))
end)

after_each(clients.close_all)

-- ---- messages ----

-- Returns the response to a read with the encoded |content|.
local function range(content)
  return protobuf.bytes(3, protobuf.bytes(1, content or ""))
end

-- The client does not compare the keys of a list, so one key can stand for all. Its lease is 7.
local PERMITS = range(protobuf.bytes(2, protobuf.bytes(1, prefix .. "pool/permit/7-1.1")
  .. protobuf.number(2, 1) .. protobuf.number(6, 7)):rep(65536))

-- ---- tests ----

it("regression 059: try_lock behind 65,536 permit keys finds the semaphore locked", function()
  server:forge("Txn", range() .. PERMITS)
  clients.assert_fails("locked", clients.answered(pool.try_lock, pool))
end)
