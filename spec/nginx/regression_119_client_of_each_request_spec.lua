-- If a program connected in each nginx request, as with redis:new(), the worker handled 42 requests
-- per second instead of 1,376. No message named the cause.
-- Needs: one plain member, no sanitizer.

local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local REQUESTS = 30
local WARNING = "etcdlock: this process has %d+ clients, each with a thread, a connection to etcd"
local prefix, etcd = suite.prefix(), suite.etcd()

local function count_warnings(nginx)
  return select(2, nginx:log():gsub(WARNING, ""))
end

describe("regression 119: in nginx", function()
  local nginx

  local function start(options)
    nginx = Nginx.start {
      locations = {
        ["/lock"] = ([[
          local client = assert(etcdlock.connect {
            endpoints = %q, prefix = %q, ttl = 60, %s
          })
          local lock = assert(client:lock("a", { timeout = 60 }))
          ngx.say(tostring(lock:unlock()))
        ]]):format(etcd:endpoint(), prefix, options),
        ["/told"] = [[ ngx.say(tostring(shared:get "told")) ]],
        ["/closing"] = ([[
          for _ = 1, 10 do
            local client = assert(etcdlock.connect { endpoints = %q })
            client:close()
          end
        ]]):format(etcd:endpoint()),
      },
    }
  end

  local function ask_many()
    local requests = {}
    for i = 1, REQUESTS do requests[i] = nginx:begin "/lock" end
    for _, request in ipairs(requests) do assert.equal("true\n", request:wait(60).body) end
  end

  after_each(function() nginx:stop() end)

  it("a client in each request is reported once per worker, and nothing is left afterwards",
    function()
      start ""
      local worker = nginx:workers()[1]
      local threads = Nginx.usage(worker).threads
      nginx:get "/closing"
      assert.equal(0, count_warnings(nginx))
      wait.eventually(function() return Nginx.usage(worker).threads == threads end)
      local before = Nginx.usage(worker) -- with the descriptors that gRPC keeps
      ask_many()
      assert.equal(1, count_warnings(nginx))
      wait.eventually(function()
        local now, leases = Nginx.usage(worker), #etcd:leases()
        return now.threads == before.threads and now.descriptors <= before.descriptors
          and leases == 0 and #etcd:keys(prefix) == 0,
          ("%d threads, %d descriptors, %d leases"):format(now.threads, now.descriptors, leases)
      end, 15, "nothing is left")
      nginx:assert_no_errors()
    end)

  it('the log function gets "many_clients" in place of the error log', function()
    start [[log = function(event)
      if event.event == "many_clients" then shared:set("told", event.count) end
    end]]
    ask_many()
    assert.is_true(tonumber(nginx:get("/told").body) >= 8)
    assert.equal(0, count_warnings(nginx))
  end)
end)
