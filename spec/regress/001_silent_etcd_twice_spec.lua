-- A lock call that timed out against a silent etcd left its entry RELEASING,
-- and the next call took that for "somebody else has it": `timeout` instead of
-- `unavailable`.
local Etcd = require "spec.support.etcd"
local etcdlock = require "etcdlock"

describe("a second call to an etcd that has fallen silent", function()
  local etcd, client

  setup(function()
    etcd = Etcd.start()
    client = assert(etcdlock.connect { endpoints = etcd:endpoint() })
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
