-- A lock call that timed out against a silent etcd left its entry RELEASING,
-- and the next call took that for "somebody else has it": `timeout` instead of
-- `unavailable`.
local etcdlock = require "etcdlock"
local suite = require "spec.support.harness.suite"

local prefix = suite.prefix()

describe("a second call to an etcd that has fallen silent", function()
  local etcd, client

  setup(function()
    etcd = suite.start()
    client = assert(etcdlock.connect { endpoints = etcd:endpoints(), prefix = prefix })
  end)

  teardown(function()
    client:close()
    etcd:stop()
  end)

  it("is told that etcd doesn't answer, like the first", function()
    assert(client:with_lock("y", function() end))
    etcd:pause()
    for _ = 1, 2 do
      local lock, message, code = client:lock("y", { timeout = 0.5 })
      assert.is_nil(lock)
      assert.equal("unavailable", code, message)
    end
  end)
end)
