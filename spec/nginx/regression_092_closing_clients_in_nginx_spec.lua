-- `client:close()` and the garbage collection of a dropped client blocked nginx's worker. If etcd
-- was silent, each of them blocked it for 0.5 s. An idle worker never freed the clients of aborted
-- requests.
-- Needs: one plain member, no sanitizer.

local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local DROPPED = 7
local prefix, etcd = suite.prefix(), suite.etcd()
local nginx

setup(function()
  nginx = Nginx.start {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5 },
    init_worker = ([[
      etcdlock = require "etcdlock"
      function connect()
        return assert(etcdlock.connect { endpoints = %q, prefix = %q, ttl = 5 })
      end
      clients = {}
    ]]):format(etcd:endpoint(), prefix),
    locations = {
      -- Makes clients that hold a lock each, and keeps them.
      ["/connect"] = [[
        for i = 1, tonumber(ngx.var.arg_count) do
          local client = connect()
          clients[i] = { client = client, lock = assert(client:lock("kept/" .. i)) }
        end
        ngx.say "connected"
      ]],
      ["/close"] = [[
        shared:set("closing", 1)
        clients[1].client:close()
        ngx.say "closed"
      ]],
      ["/closing"] = [[ ngx.say(shared:get "closing") ]],
      ["/ping"] = [[ ngx.say "pong" ]],
      ["/drop"] = [[
        clients = {}
        local core = require "etcdlock.core"
        local from = core.now()
        collectgarbage()
        collectgarbage()
        ngx.say(core.now() - from)
      ]],
      -- A request with a client of its own, which it does not close.
      ["/own"] = [[
        local lock = assert(connect():lock("own/" .. ngx.var.arg_name))
        ngx.sleep(tonumber(ngx.var.arg_hold))
        ngx.say(lock:token())
      ]],
    },
  }
end)

after_each(function()
  etcd:resume()
  wait.eventually(function() return #etcd:leases() == 0 end, 20, "no lease is left")
end)

it("regression 092: a worker serves other requests while a client is closed", function()
  assert.equal("connected\n", nginx:get("/connect?count=1").body)
  etcd:pause()
  local closing = nginx:begin "/close"
  wait.eventually(function() return nginx:get("/closing").body == "1\n" end, 5, "it closes")
  assert.equal("pong\n", nginx:get("/ping").body)
  assert.falsy(closing.done)
  assert.equal("closed\n", closing:wait(5).body)
end)

it("regression 092: collecting clients that were dropped does not block a worker", function()
  assert.equal("connected\n", nginx:get("/connect?count=" .. DROPPED).body)
  etcd:pause()
  local took = tonumber(nginx:get("/drop").body)
  assert.is_true(took < 0.5, took) -- the end of a single client takes as long
end)

it("regression 092: an idle worker collects the clients of requests", function()
  local requests = {}
  local before = #etcd:leases()
  for i = 1, 3 do requests[i] = nginx:begin("/own?hold=100&name=" .. i) end
  etcd:await_keys(prefix .. "own/", 3)
  for i = 1, 3 do requests[i]:abort() end
  assert.equal(before + 3, #etcd:leases())
  wait.eventually(function()
    local leases = #etcd:leases()
    return leases == before, leases .. " leases"
  end, 20, "the leases of the requests are gone")
end)
