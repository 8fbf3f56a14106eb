-- One request whose answer was lost shut the gate, and had etcd called out of reach, although
-- it had answered others since.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()

after_each(function()
  clients.close_all()
  etcd:ctl("del", prefix, "--prefix")
end)

-- A client that holds "a", and asks nothing by itself now.
local function holding(fail_fast)
  local server, client = clients.through_scripted(suite.endpoint(), {
    prefix = prefix, ttl = 60, fail_fast = fail_fast,
  })
  local lock = assert(client:lock "a")
  clients.await_watched(client, lock)
  return server, client, lock
end

-- The next one of |client|'s is answered, after what is out.
local function answer_another(server, client)
  wait.eventually(function() return server:held "Txn" == 1 end)
  wait.sleep(0.002) -- of the clock that tells which was first
  assert(client:ping())
end

it("an etcd that has answered since isn't out of reach", function()
  local server, client, lock = holding(false)
  server:hold_back "Txn"
  local write = clients.start_put(client, lock, prefix .. "data", "new", 10)
  answer_another(server, client)
  clients.assert_unheard(write)
  for _ = 1, 100 do -- it would be said right after that
    assert.is_nil(client._core:outage())
    wait.sleep(0.001)
  end
end)

-- Who would rather be told at once is told with the first attempt that is given up.
it("one that falls silent after an answer is", function()
  local server, client = holding(true)
  local enqueues = client:stats().enqueues
  server:hold_back "Txn"
  local asked = assert(client:lock_async "b")
  answer_another(server, client)
  server:hold_back("Txn", -1)
  clients.assert_fails("unavailable", clients.ended(asked))
  assert.equal(1, client:stats().enqueues - enqueues)
end)
