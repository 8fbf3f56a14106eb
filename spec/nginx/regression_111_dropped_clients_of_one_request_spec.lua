-- If all clients of a worker belonged to one nginx request, or to one timer that ran on, dropped
-- clients were never freed, nor were their threads and leases.
-- Needs: one plain member, no sanitizer.

local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local nginx

before_each(function()
  nginx = Nginx.start {
    init_worker = ([[
      etcdlock = require "etcdlock"
      function use_and_drop(n)
        for i = 1, n do
          local client = assert(etcdlock.connect { endpoints = %q, prefix = %q, ttl = 60 })
          assert(client:lock("a")):unlock()
        end
      end
    ]]):format(etcd:endpoint(), prefix),
    locations = {
      ["/one"] = [[ use_and_drop(1) ngx.say "dropped" ]],
      ["/several"] = [[ use_and_drop(5) ngx.say "dropped" ]],
      ["/timer"] = [[
        ngx.timer.at(0, function()
          use_and_drop(5)
          shared:set("dropped", 1)
          while not ngx.worker.exiting() do ngx.sleep(0.1) end
        end)
        while not shared:get "dropped" do ngx.sleep(0.001) end
        ngx.say "dropped"
      ]],
    },
  }
end)

after_each(function() nginx:stop() end)

for path, whose in pairs {
  ["/one"] = "the only client", ["/several"] = "all clients, of one request",
  ["/timer"] = "all clients, of one timer that runs on",
} do
  it(("regression 111: a worker collects %s, dropped without close"):format(whose), function()
    local worker = nginx:workers()[1]
    local before = Nginx.usage(worker).threads
    assert.equal("dropped\n", nginx:get(path).body)
    wait.eventually(function()
      local threads, leases = Nginx.usage(worker).threads, #etcd:leases()
      return threads == before and leases == 0, ("%d threads, %d leases"):format(threads, leases)
    end, 10, "no thread and lease is left")
  end)
end
