-- A key that was asked for with a lost answer, and came after 8 s, when nobody looked
-- for it any more, stood in the queue for as long as its client lived.

local clients = require "spec.support.harness.clients"
local error_rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local LATE = 9
local server, client

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 20 })
end)

after_each(clients.close_all)

it("a key for nobody that comes late is taken out while the client goes on", function()
  local busy = assert(client:lock "busy")
  local count = 50
  -- An error which doesn't say whether the key was put, and isn't asked again for.
  server:answer("Txn", "late", error_rows.STATUS.RESOURCE_EXHAUSTED,
    "etcdserver: mvcc: database space exceeded")
  for i = 1, count do
    clients.assert_fails("no_space", client:lock("late/" .. i))
  end
  server:pass()
  local from = wait.now()
  wait.eventually(function() return wait.now() > from + LATE end, LATE + 1)
  assert.is_true(server:deliver "Txn" >= count)
  assert.equal(count, #etcd:keys(prefix .. "late/"))
  etcd:await_keys(prefix .. "late/", 0, 20)
  assert.is_true(busy:check())
end)
