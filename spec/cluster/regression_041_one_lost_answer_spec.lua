-- If the answer to one request was lost, the client stopped its request queue and reported etcd as
-- unreachable, although etcd had answered later requests.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()

after_each(function()
  clients.close_all()
  etcd:del_all(prefix)
end)

-- Returns a scripted server, its client, and the lock "a", which the client holds. In the next
-- seconds the client sends no request of its own accord.
local function holding(fail_fast)
  local server, client = clients.through_scripted(suite.endpoint(), {
    prefix = prefix, ttl = 60, fail_fast = fail_fast,
  })
  local lock = assert(client:lock "a")
  clients.await_watched(client, lock)
  return server, client, lock
end

-- Waits until |server| holds back one answer. Then makes a later request of |client|, which
-- succeeds.
local function answer_another(server, client)
  wait.eventually(function() return server:held "Txn" == 1 end)
  wait.sleep(0.002) -- until the clock shows a later time for the next request
  assert(client:ping())
end

it("regression 041: one lost answer is no outage if etcd answered a later request", function()
  local server, client, lock = holding(false)
  server:hold_back "Txn"
  local write = clients.start_put(client, lock, prefix .. "data", "new", 10)
  answer_another(server, client)
  clients.assert_unheard(write)
  for _ = 1, 100 do -- a wrongly detected outage would be reported right after the write
    assert.is_nil(client._core:outage())
    wait.sleep(0.001)
  end
end)

-- With fail_fast, a call fails as soon as its first attempt is given up.
it("regression 041: with fail_fast, lock fails after one attempt if etcd falls silent", function()
  local server, client = holding(true)
  local enqueues = client:stats().enqueues
  server:hold_back "Txn"
  local asked = assert(client:lock_async "b")
  answer_another(server, client)
  server:hold_back("Txn", -1)
  clients.assert_fails("unavailable", clients.ended(asked))
  assert.equal(1, client:stats().enqueues - enqueues)
end)
