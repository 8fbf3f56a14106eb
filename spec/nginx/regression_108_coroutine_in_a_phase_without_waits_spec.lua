-- A coroutine in header_filter_by_lua can yield, but has no cosockets. In such a coroutine, each
-- call that had to wait raised nginx's error "API disabled".
-- Needs: no sanitizer.
local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()

it('regression 108: a call in a coroutine of a filter phase returns "context"', function()
  local nginx = Nginx.start {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5 },
    init = [[
      function try_all(phase)
        coroutine.wrap(function()
          local codes = {}
          for i, call in ipairs {
            function() return client:lock("a", { timeout = 1 }) end,
            function() return client:ping() end,
            function() return client:status() end,
          } do
            local ok, got, message, code = pcall(call)
            codes[i] = ok and tostring(code) or got
          end
          shared:set(phase, table.concat(codes, " "))
        end)()
      end
    ]],
    locations = {
      ["/filters"] = {
        content = [[ ngx.say "done" ]],
        header_filter = [[ try_all "header_filter" ]],
        body_filter = [[ try_all "body_filter" ]],
      },
      ["/told"] = [[ ngx.say(shared:get "header_filter", ", ", shared:get "body_filter") ]],
      ["/stats"] = [[ local now = client:stats() ngx.say(now.held + now.waiting) ]],
    },
  }
  finally(function() nginx:stop() end)
  assert.equal("done\n", nginx:get("/filters").body)
  assert.equal("context context context, context context context\n", nginx:get("/told").body)
  assert.equal("0\n", nginx:get("/stats").body)
end)
