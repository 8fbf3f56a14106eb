-- During an etcd outage, `lock` of resty.etcdlock returned a message of its own instead of
-- "timeout". Callers such as lua-resty-mlcache serve stale data only on "timeout", so they failed.
-- Needs: no sanitizer.
local Etcd = require "spec.support.servers.etcd"
local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()
local etcd, nginx

setup(function()
  etcd = Etcd.start()
  nginx = Nginx.start {
    init_worker = ([[
      resty_lock = require("resty.etcdlock").connect { endpoints = "%s", prefix = "%s", ttl = 10 }
    ]]):format(etcd:endpoint(), prefix),
    locations = {
      -- A cache with a stale value, written for resty.lock: it serves that on "timeout".
      ["/cached"] = [[
        local lock = assert(resty_lock:new("shared", { timeout = 0.5 }))
        local elapsed, failure, detail = lock:lock "cached"
        if not elapsed and failure ~= "timeout" then
          return ngx.say("could not acquire callback lock: ", failure)
        elseif not elapsed then
          return ngx.say("stale, ", detail or "and somebody fetches it")
        end
        while ngx.var.arg_until and not shared:get(ngx.var.arg_until) do ngx.sleep(0.01) end
        ngx.say("fresh, ", lock:unlock())
      ]],
      ["/go"] = [[ shared:set("go", true) ngx.say "went" ]],
    },
  }
end)

local function assert_stale()
  local answer = nginx:get "/cached"
  assert.matches("^stale, lock .* etcd 127.0.0.1:%d+", answer.body)
  assert.is_true(answer.took < 0.5 + wait.SLACK, answer.took)
end

it('regression 025: lock of resty.etcdlock returns "timeout" and the cause in an etcd '
  .. 'outage', function()
  assert.equal("fresh, 1\n", nginx:get("/cached").body)
  local request = nginx:begin "/cached?until=go"
  etcd:await_keys(prefix, 1)
  wait.eventually(function()
    local body = nginx:get("/cached").body
    assert.matches("^stale, ", body)
    return body == "stale, and somebody fetches it\n", body
  end, 5, "a wait in which etcd answers")
  assert.equal("went\n", nginx:get("/go").body)
  assert.equal("fresh, 1\n", request:wait(5).body)
  etcd:pause()
  assert_stale()
  etcd:resume()
  wait.eventually(function() return nginx:get("/cached").body == "fresh, 1\n" end, 5, "fresh")
  etcd:kill()
  assert_stale()
  assert_stale()
  etcd:restart()
  wait.eventually(function() return nginx:get("/cached").body == "fresh, 1\n" end, 5, "fresh")
end)
