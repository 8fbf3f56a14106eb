-- A lock call that timed out while etcd was silent left its entry in the state RELEASING. Because
-- of this entry, the next call assumed that another client held the lock, and returned `timeout`
-- instead of `unavailable`.
local etcdlock = require "etcdlock"
local suite = require "spec.support.harness.suite"

local prefix = suite.prefix()

describe("regression 001: a second lock call to a paused etcd", function()
  local etcd, client

  setup(function()
    etcd = suite.start()
    client = assert(etcdlock.connect { endpoints = etcd:endpoints(), prefix = prefix })
  end)

  teardown(function()
    client:close()
    etcd:stop()
  end)

  it('returns "unavailable", like the first', function()
    assert(client:with_lock("y", function() end))
    etcd:pause()
    for _ = 1, 2 do
      local lock, message, code = client:lock("y", { timeout = 0.5 })
      assert.is_nil(lock)
      assert.equal("unavailable", code, message)
    end
  end)
end)
