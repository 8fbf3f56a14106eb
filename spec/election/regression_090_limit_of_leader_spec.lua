-- election:leader may send two requests. Each of them had a limit of 5 s of its own, so the call
-- could take 10 s.
-- Runs alone: it measures a time.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local server, client

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 60 })
end)

after_each(function()
  clients.close_all()
  etcd:del_all(prefix)
end)

describe("regression 090: election:leader", function()
  it("ends within 5.25 s if only its first request is answered", function()
    for i = 1, 5 do etcd:put(prefix .. "boss/data" .. i, "x") end
    local ask, from = client._run_txn, wait.now()
    function client:_run_txn(...)
      client._run_txn = ask
      local answer = { ask(self, ...) }
      wait.sleep(2)
      server:answer("Txn", "never", 14)
      return (table.unpack or unpack)(answer, 1, 4)
    end
    clients.assert_fails("unavailable", assert(client:election "boss"):leader())
    assert.is_true(wait.now() - from < 5.4, wait.now() - from)
  end)
end)
