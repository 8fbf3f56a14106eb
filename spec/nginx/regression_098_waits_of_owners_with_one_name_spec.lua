-- If several nginx requests waited for a lock with owners of the same name, only one request got
-- the lock, and the others got "deadlock". Requests that waited beside an aborted request also got
-- "deadlock".
-- Needs: one plain member, no sanitizer.

local Nginx = require "spec.support.servers.nginx"
local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoint(), prefix = prefix }
local nginx

setup(function()
  nginx = Nginx.start {
    client = { endpoints = etcd:endpoint(), prefix = prefix },
    locations = {
      ["/lock"] = [[
        local lock, message = client:lock("a", { owner = ngx.var.arg_owner })
        ngx.say(lock and "held" or message)
        if lock then lock:unlock() end
      ]],
      -- Ends a light thread that waits for a lock. Then the owner of this wait asks again.
      ["/again"] = [[
        local function wait() return client:lock("a", { owner = "one" }) end
        local waiting = client:stats().waiting
        local thread = ngx.thread.spawn(wait)
        while client:stats().waiting == waiting do ngx.sleep(0.001) end
        ngx.thread.kill(thread)
        shared:set("asked", 1)
        local lock, message = wait()
        ngx.say(lock and "held" or message)
        if lock then lock:unlock() end
      ]],
      -- Two light threads of one owner ask for a lock. The second one asks when another nginx
      -- request waits as well.
      ["/twice"] = [[
        local function wait() return client:lock("a", { owner = "one" }) end
        local thread = ngx.thread.spawn(wait)
        shared:set("asked", 1)
        while client:stats().waiting < 2 do ngx.sleep(0.001) end
        local _, message = wait()
        ngx.say(message)
        ngx.thread.kill(thread)
      ]],
      ["/forget"] = [[ shared:delete "asked" ]],
      ["/waiting"] = [[ ngx.say(client:stats().waiting, " ", shared:get "asked" or 0) ]],
    },
  }
end)

after_each(clients.close_all)

local function await_waiting(text)
  wait.eventually(function()
    local body = nginx:get("/waiting").body
    return body == text .. "\n", body
  end, 5, "waits: " .. text)
end

it("regression 098: requests with owners of the same name wait for a lock in turn", function()
  local held = assert(connect():lock "a")
  local requests = {}
  for i = 1, 3 do requests[i] = nginx:begin "/lock?owner=one" end
  await_waiting "3 0"
  assert.is_true(held:unlock())
  for i = 1, 3 do assert.equal("held\n", requests[i]:wait().body) end
end)

it("regression 098: requests get the lock beside requests that are aborted", function()
  for _ = 1, 10 do
    local requests = {}
    for i = 1, 60 do requests[i] = nginx:begin "/lock" end
    for i = 1, 60, 3 do
      wait.sleep(0.001)
      requests[i]:abort()
    end
    for i = 1, 60 do
      if i % 3 ~= 1 then assert.equal("held\n", requests[i]:wait(20).body) end
    end
  end
end)

it("regression 098: an owner asks again after its light thread was ended", function()
  local held = assert(connect():lock "a")
  local request = nginx:begin "/again"
  await_waiting "1 1"
  assert.is_true(held:unlock())
  assert.equal("held\n", request:wait().body)
end)

it("regression 098: a second wait of an owner is a deadlock beside another request's", function()
  nginx:get "/forget"
  local held = assert(connect():lock "a")
  local twice = nginx:begin "/twice"
  await_waiting "1 1"
  local other = nginx:begin "/lock?owner=one" -- "/twice" goes on when this request waits
  assert.matches("waits for it already", twice:wait().body)
  assert.is_true(held:unlock())
  assert.equal("held\n", other:wait().body)
end)
