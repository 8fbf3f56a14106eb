-- In nginx, the second `lock` of a request returned the permit that the request already held. If a
-- request took a permit for each of its light threads, all threads shared one permit.
-- Needs: no sanitizer.
local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local nginx

setup(function()
  nginx = Nginx.start {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5 },
    locations = {
      ["/calls"] = [[
        local two = assert(client:semaphore("calls", 2))
        local one, other = assert(two:lock()), assert(two:try_lock())
        local _, _, tried = two:try_lock()
        local _, _, waited = two:lock { timeout = 0.1 }
        ngx.say(one ~= other, " ", one:count() + other:count(), " ", tried, " ", waited, " ",
          two:available())
        one:unlock() other:unlock()
        ngx.say(two:available())
      ]],
      ["/threads"] = [[
        local two, running, most, threads = assert(client:semaphore("threads", 2)), 0, 0, {}
        for i = 1, 16 do
          local permit = assert(two:lock { timeout = 30 })
          running = running + 1
          most = math.max(most, running)
          threads[i] = ngx.thread.spawn(function()
            ngx.sleep(0.01)
            running = running - 1
            assert(permit:unlock())
          end)
        end
        for i = 1, 16 do assert(ngx.thread.wait(threads[i])) end
        ngx.say(most, " ", two:available())
      ]],
      ["/phases"] = {
        access = [[
          local two = assert(client:semaphore("phases", 2))
          ngx.ctx.locks = { assert(two:lock()), assert(two:lock()) }
        ]],
        content = [[
          local two = assert(client:semaphore("phases", 2))
          local _, _, code = two:lock()
          ngx.say(code)
          for _, lock in ipairs(ngx.ctx.locks) do assert(lock:unlock()) end
        ]],
      },
    },
  }
end)

it("regression 097: each call of a request takes another permit", function()
  assert.equal("true 2 locked timeout 0\n2\n", nginx:get("/calls").body)
end)

it("regression 097: a request with a permit for each light thread runs n of them", function()
  assert.equal("2 2\n", nginx:get("/threads").body)
end)

it('regression 097: a phase gets "deadlock" if an earlier phase has taken all permits', function()
  for _ = 1, 2 do assert.equal("deadlock\n", nginx:get("/phases").body) end
end)
