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

it("an etcd that has answered since isn't out of reach", function()
  local server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 60 })
  local lock = assert(client:lock "a")
  clients.await_watched(client, lock)
  server:hold_back "Txn"
  local write = clients.start_put(client, lock, prefix .. "data", "new", 10)
  assert(client:ping())
  local ok, message, code = write:wait(10)
  assert.is_false(ok)
  assert.equal("unavailable", code, message)
  for _ = 1, 100 do -- it would be said right after that
    assert.is_nil(client._core:outage())
    wait.sleep(0.001)
  end
end)
