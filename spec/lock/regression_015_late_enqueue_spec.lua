-- etcd applied an enqueue of unknown outcome more than 8 s later, when the client had stopped
-- looking for the key. The key stayed in the queue for as long as the client lived, and blocked
-- other clients.
-- Needs: one plain member.

local clients = require "spec.support.harness.clients"
local error_rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local LATE = 9 -- seconds after which etcd applies the enqueues
local server, client

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 20 })
end)

after_each(clients.close_all)

it("regression 015: keys of late enqueues are removed while their client goes on", function()
  local busy = assert(client:lock "busy")
  local count = 50
  -- This error leaves the outcome unknown, and the client does not repeat the request.
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
