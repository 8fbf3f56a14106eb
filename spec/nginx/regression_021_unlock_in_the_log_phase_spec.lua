-- nginx ends the connections of a request before log_by_lua, and with them its locks. A lock that
-- was taken in access_by_lua and held across proxy_pass was lost there, and `unlock` did not
-- return true. Nor did `unlock` of a lock that was taken in log_by_lua.
-- Needs: no sanitizer.
local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local COUNT = 50
local prefix, etcd = suite.prefix(), suite.etcd()
local nginx

setup(function()
  nginx = Nginx.start {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5 },
    init_worker = [[
      resty_lock = require "resty.etcdlock"
      function note(...)
        local told = { ... }
        for i = 1, select("#", ...) do told[i] = tostring(told[i]) end
        local line = table.concat(told, " ")
        shared:incr(line, 1, 0)
      end
    ]],
    locations = {
      ["/backend"] = [[ ngx.say(select(3, client:try_lock(ngx.var.arg_name))) ]],
      ["/proxied"] = {
        access = [[
          local ctx, name = ngx.ctx, ngx.var.arg_name
          ctx.lock = assert(client:lock(name))
          ctx.twice = assert(client:lock(name .. "/twice"))
          assert(client:lock(name .. "/twice") == ctx.twice)
          ctx.resty = assert(resty_lock:new("shared", { client = client }))
          assert(ctx.resty:lock(name))
        ]],
        conf = "proxy_pass http://127.0.0.1:$server_port/backend?$args;",
        log = [[
          local lock, twice, resty = ngx.ctx.lock, ngx.ctx.twice, ngx.ctx.resty
          note("held", lock:held())
          note("put", select(3, lock:put("x", "y")))
          note("reason", select(2, lock:check()):match "ended with the nginx request")
          note("unlock", lock:unlock())
          note("again", select(3, lock:unlock()))
          note("twice", twice:unlock())
          note("twice", twice:unlock())
          note("resty", resty:unlock())
          local tried
          for _ = 1, 100 do -- etcd has 100 ms each time, which a busy machine may not keep
            tried = tried or client:try_lock(ngx.var.arg_name .. "/log")
          end
          note("tried", assert(tried):unlock())
          note "done"
        ]],
      },
      ["/told"] = [[
        for _, line in ipairs(shared:get_keys()) do ngx.say(shared:get(line), " ", line) end
      ]],
    },
  }
end)

it("regression 021: a lock held across proxy_pass covers it, and unlock in log_by_lua "
  .. "returns true", function()
  for i = 1, COUNT do
    assert.equal("locked\n", nginx:get("/proxied?name=a" .. i % 5).body)
  end
  local told
  wait.eventually(function()
    told = {}
    for count, line in nginx:get("/told").body:gmatch "(%d+) ([^\n]+)" do
      told[line] = tonumber(count)
    end
    return told.done == COUNT
  end, 5, "the log phases")
  assert.same({
    ["held false not_held"] = COUNT,
    ["put not_held"] = COUNT,
    ["reason ended with the nginx request"] = COUNT,
    ["unlock true"] = COUNT,
    ["again not_held"] = COUNT,
    ["twice true"] = 2 * COUNT,
    ["resty 1"] = COUNT,
    ["tried true"] = COUNT,
    done = COUNT,
  }, told)
  etcd:await_keys(prefix, 0)
end)
