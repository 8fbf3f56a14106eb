-- Regression 120: ngx.log refuses a table. If the job of examples/openresty/timer.lua raised a
-- table as its error, the job never ran again in that worker.
-- Needs: one plain member, no sanitizer.

local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local NAME = suite.prefix() .. "job"

suite.etcd()

describe("regression 120: the job of examples/openresty/timer.lua", function()
  local nginx

  after_each(function() if nginx then nginx:stop() end end)

  it("runs again after an error whose value is a table", function()
    nginx = Nginx.start {
      main = "env ETCDCTL_ENDPOINTS;",
      init_worker = ([[
        dofile("%s/examples/openresty/timer.lua").every("%s", 0.02, function()
          if shared:get "asked" then -- nginx must start without an error
            shared:incr("failed", 1, 0)
            error {}
          end
        end)
      ]]):format(require "luv".cwd(), NAME),
      locations = {
        ["/failed"] = [[
          shared:set("asked", true)
          ngx.say(shared:get "failed" or 0)
        ]],
      },
    }
    wait.eventually(function()
      return tonumber(nginx:get("/failed").body) > 2
    end, 10, "runs after an error")
  end)
end)
