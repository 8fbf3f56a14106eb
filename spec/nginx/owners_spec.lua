-- Tests the owners of holds and permits in nginx requests.
-- Needs: no sanitizer.

-- Regression 007. Two nginx requests that named the same owner shared a hold that one of them took
-- in a phase that cannot wait. The phases of one request, which run in the same coroutine, shared a
-- hold although they named no owner.
describe("in nginx,", function()
  with_nginx {
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
          await "go"
        ]],
        log = [[ ngx.ctx.lock:unlock() ]],
      },
      ["/same_owner"] = [[
        ngx.say(tostring((client:try_lock("filter", { owner = "job" }))), " ",
          select(3, client:lock("filter", { owner = "job", timeout = 0.1 })))
      ]],
      ["/untied"] = [[
        local blocking = connect { loop = "none" }
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
    },
  }

  it("a request does not share the hold of another with the same owner", function()
    local request = nginx:begin "/filter"
    nginx:await_value("holds", "true")
    assert.equal("nil timeout\n", nginx:get("/same_owner").body)
    nginx:set_value("go", "now")
    assert.equal("x\n", request:wait(5).body)
  end)

  it("calls of one request with one owner share a hold, lock_async too", function()
    assert.equal("true true 4\n", nginx:get("/untied").body)
  end)
end)

-- Regression 097. In nginx, the second `lock` of a request returned the permit that the request
-- already held. If a request took a permit for each of its light threads, all threads shared one
-- permit.
describe("in nginx,", function()
  with_nginx {
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

  it("each call of a request takes another permit", function()
    assert.equal("true 2 locked timeout 0\n2\n", nginx:get("/calls").body)
  end)

  it("a request with a permit for each light thread runs n of them", function()
    assert.equal("2 2\n", nginx:get("/threads").body)
  end)

  it('a phase gets "deadlock" if an earlier phase has taken all permits', function()
    for _ = 1, 2 do assert.equal("deadlock\n", nginx:get("/phases").body) end
  end)
end)
