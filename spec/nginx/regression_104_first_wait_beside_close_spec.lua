-- If the first wait of a client began while another light thread was closing the client, the wait
-- started the client's wake server. The thread and the socket of this server were never freed.
-- Needs: one plain member, no sanitizer.

local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local nginx

setup(function()
  nginx = Nginx.start {
    locations = {
      ["/client"] = ([[
        client = assert(etcdlock.connect { endpoints = %q, prefix = %q, ttl = 5 })
        local asked = assert(client:lock_async "a")
        repeat ngx.sleep(0.001) until asked:step()
        ngx.say "connected"
      ]]):format(etcd:endpoint(), prefix),
      ["/close"] = [[
        shared:set("code", nil)
        local closing = ngx.thread.spawn(function() client:close() end)
        local lock, message, code = client:lock "b"
        ngx.thread.wait(closing)
        client = nil
        collectgarbage()
        collectgarbage()
        ngx.say(code)
      ]],
    },
  }
end)

after_each(function() etcd:resume() end)

it("regression 104: a first wait beside close is told closed and leaves nothing", function()
  local worker = nginx:workers()[1]
  local threads
  for i = 1, 2 do
    assert.equal("connected\n", nginx:get("/client").body)
    etcd:pause()
    assert.equal("closed\n", nginx:get("/close").body)
    etcd:resume()
    wait.eventually(function() return #etcd:leases() == 0 end, 10, "no lease is left")
    threads = threads or Nginx.usage(worker).threads
    assert.is_true(Nginx.usage(worker).threads <= threads, "threads after client " .. i)
    assert.same({}, nginx:leftovers())
  end
end)
