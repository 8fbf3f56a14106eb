-- Tests lock calls in phases in which nginx cannot yield.
-- Needs: no sanitizer.

-- Regression 021. nginx ends the connections of a request before log_by_lua, and with them its
-- locks. A lock that was taken in access_by_lua and held across proxy_pass was lost there, and
-- `unlock` did not return true. Nor did `unlock` of a lock that was taken in log_by_lua.
describe("in nginx,", function()
  local COUNT = 50

  with_nginx {
    init_worker = [[
      resty_lock = require "resty.etcdlock"
      function note(...)
        local told = { ... }
        for i = 1, select("#", ...) do told[i] = tostring(told[i]) end
        shared:incr(table.concat(told, " "), 1, 0)
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

  it("a lock held across proxy_pass covers it, and unlock in log_by_lua "
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
end)

-- Regression 023. In a phase where nginx cannot wait, each `try_lock` on a silent etcd blocked the
-- whole worker for 2 s. After five of them, another request got its answer after 10 s.
describe("in nginx,", function()
  local COUNT = 5

  with_nginx {
    locations = {
      ["/lock"] = [[ ngx.say(client:with_lock("a", function() end)) ]],
      ["/try"] = {
        content = [[ ngx.say "tried below" ]],
        log = [[
          local core = require "etcdlock.core"
          local from = core.now()
          local lock, message, code = client:try_lock "a"
          local took = core.now() - from
          shared:rpush("tries", ("%.3f %s %s"):format(took, code or "held", message or "-"))
          if lock then lock:unlock() end
        ]],
      },
      ["/told"] = [[ ngx.say(shared:lpop "tries" or "nothing") ]],
    },
  }

  -- Returns the duration of the next try in seconds, its code and its message.
  local function next_try()
    local told = wait.eventually(function()
      local body = nginx:get("/told").body
      return body ~= "nothing\n" and body
    end, 5, "a try")
    local took, code, message = told:match "^(%S+) (%S+) (.*)\n"
    return tonumber(took), code, message
  end

  it("a silent etcd delays only one try_lock in log_by_lua, by 0.1 s", function()
    assert.equal("true\n", nginx:get("/lock").body)
    etcd:pause()
    local from = wait.now()
    for _ = 1, COUNT do nginx:get "/try" end
    assert.equal("ready\n", nginx:get("/ready").body)
    local all = wait.now() - from
    local took, code, message = next_try()
    assert.equal("unavailable", code)
    assert.matches("no answer from etcd", message)
    assert.is_true(took > 0.09, took)
    for _ = 2, COUNT do
      took, code, message = next_try()
      assert.equal("unavailable", code)
      assert.matches('^lock "' .. prefix .. 'a": etcd', message)
      assert.is_true(took < 0.09, took)
    end
    assert.is_true(all < 0.1 + wait.SLACK, all)

    etcd:resume()
    wait.eventually(function()
      nginx:get "/try"
      local _, now, why = next_try()
      return now == "held", why
    end, 5, "etcd is heard")
  end)
end)

-- Regression 024. `lock` of resty.etcdlock refused a free lock in the phases where nginx cannot
-- wait; resty.lock takes it there. It also returned "timeout" for a free lock if the client's first
-- connection to etcd took longer than the timeout.
describe("in nginx,", function()
  local etcd, nginx

  setup(function()
    etcd = Etcd.start()
    nginx = start_nginx {
      client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5 },
      init_worker = [[
        resty_lock = require "resty.etcdlock"
        function new(opts)
          opts = opts or {}
          opts.client = client
          return resty_lock:new("shared", opts)
        end
        -- Stores what a phase gets from lock, for a free and for a taken lock, and from unlock.
        function try_all(phase)
          local one, told = new(), {}
          local lists = {
            { one:lock(phase) }, { new():lock(phase) }, { new({ timeout = 0 }):lock(phase) },
            { one:unlock() }, { one:unlock() },
          }
          for i, list in ipairs(lists) do
            told[i] = tostring(list[1]) .. (list[2] and " " .. list[2] or "")
          end
          shared:set(phase, table.concat(told, "\n"))
        end
      ]],
      locations = {
        ["/set"] = {
          conf = [[ set_by_lua_block $told { try_all "set" return "" } ]],
          content = [[ ngx.say "done" ]],
        },
        ["/filters"] = {
          content = [[ ngx.say "done" ]],
          header_filter = [[ try_all "header_filter" ]],
          log = [[ try_all "log" ]],
        },
        -- The calls that lua-resty-healthcheck makes.
        ["/healthcheck"] = {
          conf = [[
            set_by_lua_block $told {
              ngx.ctx.lock = new()
              local elapsed
              for _ = 1, 100 do -- etcd has 100 ms each time, as below
                elapsed = elapsed or ngx.ctx.lock:lock "targets"
              end
              assert(elapsed)
              ngx.ctx.told = select(2, new({ timeout = 0 }):lock "targets")
              return ""
            }
          ]],
          content = [[ ngx.say(ngx.ctx.told, " ", ngx.ctx.lock:unlock()) ]],
        },
        ["/short"] = [[ ngx.say(new({ timeout = 0.01 }):lock "short") ]],
        -- Two clients; the one named `fresh` has not connected yet.
        ["/fresh"] = ([[
          local fresh = resty_lock.connect { endpoints = "%s", prefix = "%s", ttl = 5 }
          local one, other = new(), fresh:new("shared", { timeout = 0.2 })
          assert(one:lock "fresh")
          local thread = ngx.thread.spawn(function()
            ngx.sleep(0.9)
            one:unlock()
          end)
          ngx.say(select(2, other:lock "fresh"))
          ngx.thread.wait(thread)
        ]]):format(etcd:endpoint(), prefix),
      },
    }
  end)

  it("a free lock is taken even if connecting takes longer than timeout", function()
    etcd:pause()
    local request = nginx:begin "/short"
    wait.sleep(0.2)
    etcd:resume()
    assert.equal("0\n", request:wait(5).body)
  end)

  it("connecting does not extend the timeout on a held lock", function()
    assert.equal("timeout\n", nginx:get("/fresh").body)
  end)

  for phase, path in pairs { set = "/set", header_filter = "/filters", log = "/filters" } do
    it("resty.etcdlock in " .. phase .. "_by_lua takes a free lock and fails on a "
      .. "held one", function()
      local lines
      -- In these phases a try waits 100 ms for etcd. A busy machine may need longer, so the test
      -- repeats.
      wait.eventually(function()
        assert.equal("done\n", nginx:get(path).body)
        local told
        wait.eventually(function()
          told = nginx:value(phase)
          return told ~= "nil"
        end, 5, phase)
        lines = {}
        for line in told:gmatch "[^\n]+" do lines[#lines + 1] = line end
        return lines[2]:find("nginx's worker (this is " .. phase .. "_by_lua)", 1, true), told
      end, 10, "three answers in 100 ms each")
      table.remove(lines, 2)
      assert.same({ "0", "nil timeout", "1", "nil unlocked" }, lines)
    end)
  end

  it("a lock taken in set_by_lua is unlocked in the content phase", function()
    assert.equal("timeout 1\n", nginx:get("/healthcheck").body)
    etcd:await_keys(prefix .. "shared/targets", 0)
  end)
end)

-- Regression 108. A coroutine in header_filter_by_lua can yield, but has no cosockets. In such a
-- coroutine, each call that had to wait raised nginx's error "API disabled".
it('a call in a coroutine of a filter phase returns "context"', function()
  local nginx = start_nginx {
    init = [[
      function try_all(phase)
        coroutine.wrap(function()
          local codes = {}
          for i, call in ipairs {
            function() return client:lock("a", { timeout = 1 }) end,
            function() return client:ping() end,
            function() return client:status() end,
          } do
            local ok, got, message, code = pcall(call)
            codes[i] = ok and tostring(code) or got
          end
          shared:set(phase, table.concat(codes, " "))
        end)()
      end
    ]],
    locations = {
      ["/filters"] = {
        content = [[ ngx.say "done" ]],
        header_filter = [[ try_all "header_filter" ]],
        body_filter = [[ try_all "body_filter" ]],
      },
    },
  }
  assert.equal("done\n", nginx:get("/filters").body)
  assert.equal("context context context", nginx:value "header_filter")
  assert.equal("context context context", nginx:value "body_filter")
  assert.equal("0 0\n", nginx:get("/stats").body)
end)
