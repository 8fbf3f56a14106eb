-- The client used answers that cannot be right. A lease was shorter than the client had requested,
-- so it could be shorter than the lock delay. A revision was 0 or negative. The answer to a read of
-- one key had several keys.
-- Needs: one plain member.

local clients = require "spec.support.harness.clients"
local protobuf = require "spec.support.servers.protobuf"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local assert_fails = clients.assert_fails
local server, client

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 5 })
end)

after_each(function()
  server:pass()
  clients.close_all()
  etcd:del_all(prefix)
end)

it('regression 074: lock fails with "protocol" if the lease is shorter than asked for', function()
  server:extend("LeaseGrant", protobuf.number(3, 4), 1)
  local message = assert_fails("protocol", client:lock("a", { timeout = 5 }))
  local expected = ("etcd %s: a lease of 5 s was requested, and one of 4 s was granted; ")
    :format(server.address)
  assert.matches(expected, message, 1, true)
  assert.is_true(assert(client:lock "b"):unlock())
  server:extend("LeaseGrant", protobuf.number(3, 1), 1)
  etcd:await_keys(prefix, 0, 10)
end)

it("regression 074: a longer lease than asked for is used", function()
  server:extend("LeaseGrant", protobuf.number(3, 30), 1)
  local lock = assert(client:lock "a")
  assert.is_true(lock:remaining() > 6)
  assert.is_true(lock:unlock())
end)

-- ---- transactions ----

local SUCCEEDED = protobuf.number(2, 1)

-- Returns the response to a range with keys of these create_revisions.
local function range(...)
  local kvs = { ... }
  for i, revision in ipairs(kvs) do
    kvs[i] = protobuf.bytes(2, protobuf.bytes(1, prefix .. "data") .. protobuf.number(2, revision))
  end
  return protobuf.bytes(3, protobuf.bytes(1, table.concat(kvs)))
end

it('regression 074: a read of one key fails with "protocol" if the answer has two', function()
  local lock = assert(client:lock "a")
  clients.await_watched(client, lock)
  server:forge("Txn", SUCCEEDED .. range(3, 4), 1)
  assert_fails("protocol", lock:get(prefix .. "data"))
  assert.is_true(lock:unlock())
end)

it('regression 074: a read fails with "protocol" if a key in the answer has no revision', function()
  for _, revision in ipairs { 0, -1 } do
    server:forge("Txn", SUCCEEDED .. range(3, revision), 1)
    assert_fails("protocol", client:queue "a")
  end
end)

it('regression 074: a read fails with "protocol" if the answer has no revision', function()
  server:replace("Txn", protobuf.bytes(1, protobuf.number(1, 1)) .. SUCCEEDED .. range(3), 1)
  assert_fails("protocol", client:queue "a")
end)
