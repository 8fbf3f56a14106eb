-- nginx ended a `with_read_lock`. If another owner of the same request then asked for a write lock,
-- it waited for the read lock until the end of the request.
-- Needs: one plain member, no sanitizer.

local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local nginx

setup(function()
  nginx = Nginx.start {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 60 },
    locations = {
      ["/write"] = [[
        local opts = { timeout = 10, owner = ngx.var.arg_owner }
        local runs
        local thread = ngx.thread.spawn(client.with_read_lock, client, "a", function()
          runs = true
          ngx.sleep(1000)
        end)
        repeat ngx.sleep(0.001) until runs
        ngx.thread.kill(thread)
        local lock, _, code = client:write_lock("a", opts)
        ngx.say(lock and "held" or code)
        if lock then lock:unlock() end
      ]],
    },
  }
end)

for query, owner in pairs { [""] = "another coroutine", ["?owner=one"] = "another owner" } do
  it("regression 112: a write lock of " .. owner .. " is granted after nginx has ended a "
    .. "with_read_lock", function()
    assert.equal("held\n", nginx:get("/write" .. query, { seconds = 30 }).body)
  end)
end
