-- After a write of unknown outcome, the client rewrites the marker key before the next write. If
-- the rewrite left in a batch, the client read the name of the marker key from the stack of a
-- function that had returned. So the rewrite could name a wrong key, and leave the marker key
-- unchanged.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local KEY = prefix .. "data"

after_each(function()
  clients.close_all()
  etcd:del(KEY)
end)

it("regression 037: a marker key write that leaves in a batch still blocks a late write", function()
  local server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix })
  local lock = assert(client:write_lock "a")
  clients.await_watched(client, lock)
  server:delay "Txn"
  clients.assert_fails("unavailable", lock:put(KEY, "late"))

  server:hold_back "Txn"
  local shared, asked = client:stats().batched, { assert(client:lock_async "b1") }
  wait.eventually(function() return server:held "Txn" == 1 end, 5, "what is out")
  local write = clients.start_put(client, lock, KEY, "next", 5)
  for i = 2, 6 do asked[i] = assert(client:lock_async("b" .. i)) end
  server:tell "Txn"
  for i = 1, 6 do assert.is_true(clients.granted(asked[i]):unlock()) end
  assert.is_true((write:wait(5)))
  assert.is_true(client:stats().batched - shared >= 4)
  assert.equal("next", (etcd:get(KEY)))
  assert.equal(1, server:deliver "Txn")
  assert.equal("next", (etcd:get(KEY)))
  assert.is_true(lock:unlock())
end)
