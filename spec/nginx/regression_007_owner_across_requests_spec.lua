-- Two nginx requests that named the same owner shared a hold that one of them took in a phase
-- that cannot wait. The phases of one request, which run in the same coroutine, shared a hold
-- although they named no owner.
-- Needs: no sanitizer.
local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local nginx

setup(function()
  nginx = Nginx.start {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5 },
    locations = {
      ["/filter"] = {
        conf = "lua_http10_buffering off;",
        header_filter = [[
          for _ = 1, 20 do -- etcd has 0.5 s each time, which a busy machine may not keep
            ngx.ctx.lock = ngx.ctx.lock or client:try_lock("filter", { owner = "job" })
          end
          assert(ngx.ctx.lock)
          shared:set("holds", true)
        ]],
        content = [[
          ngx.say "x"
          while not shared:get "go" do ngx.sleep(0.005) end
        ]],
        log = [[ ngx.ctx.lock:unlock() ]],
      },
      ["/holds"] = [[ ngx.say(tostring(shared:get "holds")) ]],
      ["/go"] = [[ shared:set("go", true) ngx.say "went" ]],
      ["/same_owner"] = [[
        ngx.say(tostring((client:try_lock("filter", { owner = "job" }))), " ",
          select(3, client:lock("filter", { owner = "job", timeout = 0.1 })))
      ]],
      ["/untied"] = [[
        local blocking = assert(etcdlock.connect {
          endpoints = client._endpoints, prefix = client._prefix, loop = "none",
        })
        local one = assert(blocking:lock("untied", { owner = "job" }))
        local two = assert(blocking:lock("untied", { owner = "job" }))
        local function take()
          local asked = assert(client:lock_async("async", { owner = "job" }))
          while asked:step() == false do ngx.sleep(0.005) end
          return asked:step()
        end
        local three, four = take(), take()
        ngx.say(one == two, " ", three == four, " ", two:count() + four:count())
        blocking:close()
      ]],
      ["/phases"] = {
        access = [[ ngx.ctx.lock = assert(client:lock "phases") ]],
        content = [[
          local ran = false
          local _, _, code = client:with_lock("phases", function() ran = true end)
          ngx.say(tostring(ran), " ", code, " ", ngx.ctx.lock:count())
          assert(ngx.ctx.lock:unlock())
          ngx.say(select(2, client:with_lock("phases", function(lock) return lock:count() end)))
        ]],
      },
    },
  }
end)

it("regression 007: a request does not share the hold of another with the same owner", function()
  local request = nginx:begin "/filter"
  wait.eventually(function() return nginx:get("/holds").body == "true\n" end, 5, "it holds")
  assert.equal("nil timeout\n", nginx:get("/same_owner").body)
  assert.equal("went\n", nginx:get("/go").body)
  assert.equal("x\n", request:wait(5).body)
end)

it("regression 007: calls of one request with one owner share a hold, lock_async too", function()
  assert.equal("true true 4\n", nginx:get("/untied").body)
end)

it('regression 007: a phase gets "deadlock" for the hold of an earlier phase', function()
  for _ = 1, 3 do assert.equal("false deadlock 1\n1\n", nginx:get("/phases").body) end
end)
