-- With `lua_code_cache off`, the client of each nginx request was never freed, nor were its threads
-- and its lease. A timer that looks for dropped clients kept the Lua state of the request alive.
-- Needs: one plain member, no sanitizer.

local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()

it("regression 103: without a code cache, a client ends with its request", function()
  local nginx = Nginx.start {
    http = "lua_code_cache off;",
    locations = {
      ["/lock"] = ([[
        local client = assert(require "etcdlock".connect { endpoints = %q, prefix = %q, ttl = 60 })
        kept = client
        local lock = assert(client:lock(ngx.var.arg_name))
        ngx.say(lock:token() > 0)
      ]]):format(etcd:endpoint(), prefix),
    },
  }
  local worker = nginx:workers()[1]
  local before = Nginx.usage(worker)
  for i = 1, 5 do assert.equal("true\n", nginx:get("/lock?name=" .. i).body) end
  wait.eventually(function()
    local now, leases = Nginx.usage(worker), #etcd:leases()
    return leases == 0 and now.threads <= before.threads + 3, leases .. " leases, " .. now.threads
  end, 10, "no lease is left")
end)
