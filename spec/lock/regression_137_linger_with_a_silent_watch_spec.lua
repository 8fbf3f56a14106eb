-- A client took its lingering lock again and again without a request, and noticed another client
-- only by a watch. If the watch was silent, the other client waited until its timeout.
-- Needs: one plain member.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local TTL = 5

after_each(function()
  clients.close_all()
  etcd:del_all(prefix)
end)

for _, mode in ipairs { "lock", "write_lock" } do
  it("regression 137: a lock that lingers passes to another client within TTL / 3 + 1 s, " .. mode,
    function()
      local options = { prefix = prefix, ttl = TTL }
      local server, holder = clients.through_scripted(suite.endpoint(), options)
      local other = clients.connector(options) { endpoints = suite.endpoint() }
      server:hold_back("Watch", 100)
      assert(holder[mode](holder, "a", { linger = 60 })):unlock()
      local pending = assert(other:lock_async("a", { timeout = 60 }))
      local from, taken, lock = wait.now(), 0, nil
      while not lock and wait.now() - from < 4 * TTL do
        local again = holder["try_" .. mode](holder, "a", { linger = 60 })
        if again then
          taken = taken + 1
          assert(again:unlock())
        end
        lock = pending:step()
      end
      assert.is_truthy(lock, ("taken %d times"):format(taken))
      assert.is_true(wait.now() - from < TTL / 3 + 1 + wait.SLACK)
      clients.keep(lock)
    end)
end
