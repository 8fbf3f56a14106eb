-- If a lock was lost just before its nginx request began to wait for another lock, the on_lost
-- function of the lost lock was called only when that wait ended.
-- Needs: no sanitizer.
local Nginx = require "spec.support.servers.nginx"
local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoint(), prefix = prefix }

it("regression 109: a loss at the begin of a wait is reported during the wait", function()
  local nginx = Nginx.start {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 60 },
    locations = {
      ["/wait"] = [[
        local ffi, core = require "ffi", require "etcdlock.core"
        ffi.cdef "int usleep(unsigned microseconds);"
        local lost = assert(client:lock("lost"))
        local reported_at
        assert(lost:on_lost(function() reported_at = core.now() end))
        -- The first call is at the begin of `lock`, the second one just before it waits.
        local listeners, calls = client._loss_listeners, 0
        local call_due = listeners.call_due
        function listeners:call_due()
          call_due(self)
          calls = calls + 1
          if calls == 2 then
            assert(lost:expire(0.01))
            repeat ffi.C.usleep(1000) until lost._core:wait_ended(0)
          end
        end
        local _, _, code = client:lock("taken", { timeout = 3 })
        listeners.call_due = nil
        local ended_at = core.now()
        ngx.say(code, " ", reported_at ~= nil and ended_at - reported_at > 1)
      ]],
    },
  }
  finally(function()
    clients.close_all()
    nginx:stop()
  end)
  local lock = assert(connect():lock "taken")
  assert.equal("timeout true\n", nginx:get("/wait").body)
  assert(lock:unlock())
end)
