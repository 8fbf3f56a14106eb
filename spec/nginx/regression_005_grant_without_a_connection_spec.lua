-- A wait could lack a descriptor for the worker's end of its wake-up connection. If the worker was
-- busy while the lock was granted, the nginx request still got the lock. But the lock was not tied
-- to the request, so it stayed held after the request had ended.
-- Needs: no sanitizer.
local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()

it('regression 005: a lock call without a descriptor for its wake-up connection fails with '
  .. '"nomem"', function()
  local nginx = Nginx.start {
    files = 256,
    connections = 200,
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5 },
    init_worker = [[
      -- What has its descriptors from the beginning: etcd, the server of wake-ups.
      local warm
      for _ = 1, 20 do -- it has 0.5 s each time, which a busy machine may not keep
        warm = warm or client:try_lock "warm"
      end
      assert(warm):unlock()
      assert(client._core:begin_nginx_wait())
    ]],
    locations = {
      ["/full"] = { conf = "lua_http10_buffering off;", content = [[
        local files = {}
        repeat
          local file = io.open "/dev/null"
          files[#files + 1] = file
        until not file
        table.remove(files):close() -- for the request's end, not for the other
        local thread = ngx.thread.spawn(function()
          return client:lock "full"
        end)
        local ends = ngx.now() + 0.1
        repeat ngx.update_time() until ngx.now() > ends
        local _, lock, message, code = ngx.thread.wait(thread)
        for _, file in ipairs(files) do file:close() end
        ngx.say(tostring(lock), " ", tostring(code), " ", tostring(message))
        ngx.flush()
        ngx.ctx.kept = lock
        ngx.sleep(3600)
      ]] },
      ["/stats"] = [[ local now = client:stats() ngx.say(now.held + now.waiting) ]],
    },
  }
  finally(function() nginx:stop() end)
  local request = nginx:begin "/full"
  wait.eventually(function() return request.text:find "lock" or request.text:find "nil" end, 5)
  assert.matches("nil nomem .*no connection to its own thread", request.text)
  request:abort()
  wait.eventually(function() return nginx:get("/stats").body == "0\n" end, 3, "nothing is held")
end)
