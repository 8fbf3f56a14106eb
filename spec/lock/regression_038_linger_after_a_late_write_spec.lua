-- A key lingered although a write of its holder had an unknown outcome. The next holder took over
-- the same key, and the late write changed data that this holder had already read.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local KEY = prefix .. "data"
local server, client, lock

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix })
  lock = assert(client:lock("a", { linger = 60 }))
  clients.await_watched(client, lock)
end)

after_each(function()
  clients.close_all()
  etcd:del(KEY)
end)

-- Asserts that the next holder gets a new key, and that the late write of |lock| is not applied.
local function assert_let_go()
  local heir = assert(client:lock("a", { owner = "next", timeout = 10 }))
  assert.is_true(heir:token() > lock:token())
  server:deliver "Txn"
  assert.is_nil((etcd:get(KEY)))
  assert.is_true(heir:unlock())
end

it("regression 038: a key does not linger after a write of unknown outcome", function()
  server:delay "Txn"
  clients.assert_fails("unavailable", lock:put(KEY, "late"))
  assert.is_true(lock:unlock())
  assert_let_go()
end)

it("regression 038: a key does not linger while a write is in flight", function()
  server:delay "Txn"
  local write = clients.start_put(client, lock, KEY, "late", 5)
  assert.is_true(lock:unlock())
  assert_let_go()
  wait.eventually(function() return write:wait(0) ~= nil end, 10, "the end of the write")
end)

it("regression 038: a key lingers if a put succeeds after a write of unknown outcome", function()
  server:delay "Txn"
  clients.assert_fails("unavailable", lock:put(KEY, "late"))
  assert.is_true(lock:put(KEY, "next"))
  assert.is_true(lock:unlock())
  local heir = assert(client:lock("a", { owner = "next" }))
  assert.equal(lock:token(), heir:token())
  server:deliver "Txn"
  assert.equal("next", (etcd:get(KEY)))
  assert.is_true(heir:unlock())
end)
