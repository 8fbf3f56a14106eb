-- Two nginx requests that take the same two locks in opposite order wait for each other. Such
-- requests hung without a message until their HTTP clients went away.
-- Needs: one plain member.

local Nginx = require "spec.support.servers.nginx"
local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()
local connect = clients.connector { endpoints = suite.endpoint(), prefix = prefix }

after_each(clients.close_all)

describe("regression 118: in nginx", function()
  local nginx

  setup(function()
    nginx = Nginx.start {
      init_worker = ([[
        client = assert(etcdlock.connect { endpoints = %q, prefix = %q, ttl = 5,
          log = function(event)
            if event.level == "warn" then ngx.log(ngx.WARN, tostring(event)) end
          end })
      ]]):format(suite.endpoint(), prefix),
      locations = {
        ["/nested"] = [[
          local first, second = ngx.var.arg_first, ngx.var.arg_second
          local from = ngx.now()
          local _, lock, message, code = client:with_lock(first, function()
            while client:stats().held < 2 do ngx.sleep(0.01) end
            return client:lock(second)
          end)
          ngx.update_time()
          ngx.say(lock and "locked" or code .. " " .. message .. " " .. ngx.now() - from)
        ]],
        ["/lock"] = [[
          local timeout = tonumber(ngx.var.arg_timeout) or math.huge
          local lock, message, code = client:lock(ngx.var.arg_name, { timeout = timeout })
          ngx.say(tostring(lock and lock:unlock()), " ", tostring(code), " ", tostring(message))
        ]],
      },
    }
  end)

  teardown(function() nginx:stop() end)

  it("locks taken in opposite order without a timeout end after 5 s, and name the holder",
    function()
      local first = nginx:begin "/nested?first=a&second=b"
      local second = nginx:begin "/nested?first=b&second=a"
      local bodies = { first:wait(20).body, second:wait(20).body }
      local is_named = false
      for _, body in ipairs(bodies) do
        local seconds = tonumber(body:match "^timeout .* ([%d.]+)\n$" or nil)
        assert.is_true(body == "locked\n" or seconds and seconds >= 5, body)
        is_named = is_named
          or body:find "was not free within 5 s; holder: this process, pid %d+ on " ~= nil
      end
      -- One message is enough: after the first timeout, the other request may have got the lock, or
      -- found it just released.
      assert.is_true(is_named, table.concat(bodies))
    end)

  it("a wait with timeout = math.huge has no limit, and is logged with the holder after 10 s",
    function()
      local holder = connect()
      local held = assert(holder:lock("c", { value = "nightly report" }))
      local waiting = nginx:begin "/lock?name=c"
      local text = ('lock "c": still waiting after 1[%%d.]+ s; holder[%%d s ago]*: pid %d on '
        .. '[^ ]+, queued since [%%d-]+ [%%d:]+, value "nightly report"'):format(uv.os_getpid())
      wait.eventually(function() return nginx:log():find(text) end, 20, "the wait in the log")
      assert(held:unlock())
      assert.equal("true nil nil\n", waiting:wait(10).body)
      holder:close()
    end)
end)
