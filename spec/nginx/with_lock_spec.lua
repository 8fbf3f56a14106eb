-- Tests with_lock that nginx ends.
-- Needs: no sanitizer.

-- Regression 026. ngx.exit, ngx.exec and ngx.thread.kill end the function of a with_lock in nginx.
-- The lock then stayed held until the end of the nginx request. A later call for the same name in
-- that request waited forever. So did a call in one phase for a lock that an earlier phase held.
local AGAIN = [[ ngx.say(with "again") ]]

with_nginx {
  logs_errors = true, -- a leaked lock
  init_worker = [[
    function with(said, fn, opts)
      local ok, answer, code = client:with_lock(ngx.var.arg_name, opts or {}, fn or function(lock)
        return said .. " " .. lock:count()
      end)
      return ok and answer or code
    end
  ]],
  locations = {
    ["/exit_in_access"] = {
      access = [[ with("access", function() ngx.exit(ngx.OK) end) ]],
      content = AGAIN,
    },
    ["/exit_in_content"] = [[ with("content", function() ngx.exit(204) end) ]],
    ["/exec"] = [[ with("content", function() ngx.exec("/again", ngx.var.args) end) ]],
    ["/again"] = AGAIN,
    ["/error_page"] = {
      conf = "error_page 503 = /again?name=error_page;",
      access = [[ with("access", function() ngx.exit(503) end) ]],
      content = [[ ngx.say "not here" ]],
    },
    ["/kill"] = [[
      local began
      local thread = ngx.thread.spawn(with, "thread", function()
        began = true
        ngx.sleep(3600)
      end)
      while not began do ngx.sleep(0.001) end
      assert(ngx.thread.kill(thread))
      ngx.say(with "again")
    ]],
    ["/collected"] = [[
      local began
      local thread = ngx.thread.spawn(function()
        with("thread", function()
          began = true
          ngx.sleep(3600)
        end)
      end)
      while not began do ngx.sleep(0.001) end
      assert(ngx.thread.kill(thread))
      thread = nil
      for i = 1, 500 do
        collectgarbage()
        if client:stats().held == 0 then return ngx.say "released" end
        ngx.sleep(0.01)
      end
      ngx.say "held"
    ]],
    -- The first with_lock still runs in a light thread when the second one is called.
    ["/alive"] = [[
      local function sleep(lock) ngx.sleep(0.1) return "slept " .. lock:count() end
      local thread = ngx.thread.spawn(with, "thread", sleep)
      while client:stats().held == 0 do ngx.sleep(0.001) end
      local from = ngx.now()
      local again = with "again"
      ngx.update_time()
      ngx.say(again, ngx.now() - from > 0.05 and " later, " or " at once, ",
        select(2, ngx.thread.wait(thread)))
    ]],
    -- Replacing ngx.ctx must not make the running with_lock look ended.
    ["/ctx"] = [[
      ngx.say(with("content", function(lock)
        ngx.ctx = {}
        local thread = ngx.thread.spawn(function()
          return select(3, client:lock(ngx.var.arg_name, { timeout = 0.1 }))
        end)
        local inner = with "again"
        local asked = select(2, ngx.thread.wait(thread))
        return ("%s, %s, %s"):format(asked, inner, tostring(lock:held()))
      end))
    ]],
    ["/chain"] = [[ with("content", function() ngx.exec("/chain2", ngx.var.args) end) ]],
    ["/chain2"] = [[ with("content", function() ngx.exec("/again", ngx.var.args) end) ]],
    ["/shared"] = [[
      local us = { owner = "us" }
      local began
      local first = ngx.thread.spawn(with, "first", function()
        began = true
        ngx.sleep(0.05)
      end, us)
      while not began do ngx.sleep(0.001) end
      local second = ngx.thread.spawn(with, "second", function(lock)
        ngx.sleep(0.2)
        return tostring(lock:held()) .. " " .. lock:count()
      end, us)
      ngx.thread.wait(first)
      ngx.say(tostring(select(2, ngx.thread.wait(second))), ", ", with "again")
    ]],
    ["/phases"] = {
      access = [[ ngx.ctx.lock = assert(client:lock(ngx.var.arg_name)) ]],
      content = [[
        local lock, message, code = client:lock(ngx.var.arg_name, { timeout = 5 })
        ngx.say(code, " ", message)
        ngx.say(select(3, client:lock(ngx.var.arg_name)))
        ngx.say(select(3, client:try_lock(ngx.var.arg_name)))
        assert(ngx.ctx.lock:unlock())
        ngx.say(with "again")
      ]],
    },
    -- The call must run no full garbage collection, because that would stop the whole worker.
    ["/collections"] = {
      access = [[ ngx.ctx.lock = assert(client:lock(ngx.var.arg_name)) ]],
      content = [[
        local count = 0
        local function watch()
          getmetatable(newproxy(true)).__gc = function() count = count + 1; watch() end
        end
        collectgarbage "stop"
        watch()
        local code = select(3, client:lock(ngx.var.arg_name))
        collectgarbage "restart"
        ngx.say(code, ", ", count, " collections")
      ]],
    },
    ["/body_filter"] = {
      conf = "lua_http10_buffering off;",
      content = [[
        ngx.say(with("content", function(lock)
          ngx.say "within"
          return "content " .. tostring(lock:held())
        end))
      ]],
      body_filter = [[
        if not ngx.ctx.asked then
          ngx.ctx.asked = select(3, client:try_lock(ngx.var.arg_name))
          shared:set("asked", ngx.ctx.asked)
        end
      ]],
    },
    ["/subrequest"] = [[
      local args = { args = { name = ngx.var.arg_name .. "/below" } }
      ngx.print(with("content", function()
        return ngx.location.capture("/again", args).body
      end))
      ngx.say(with "again")
    ]],
  },
}

-- Requests |path| three times, checks that each answer is |answer|, and that no key remains.
local function assert_answers(path, answer)
  local name = path:sub(2)
  for _ = 1, 3 do
    assert.equal(answer, nginx:get(("%s?name=%s"):format(path, name)).body)
  end
  etcd:await_keys(prefix .. name .. "/", 0)
end

for path, what in pairs {
  ["/exit_in_access"] = "ngx.exit in access_by_lua",
  ["/exec"] = "ngx.exec",
  ["/chain"] = "two ngx.exec in a row",
  ["/error_page"] = "an error page",
  ["/kill"] = "ngx.thread.kill",
} do
  it("a request can take a lock again after its with_lock ended by "
    .. what, function() assert_answers(path, "again 1\n") end)
end

for path, case in pairs {
  ["/exit_in_content"] = { "a lock is released when ngx.exit in with_lock ends the request", "" },
  ["/collected"] = { "a lock is released when Lua collects the killed thread of with_lock",
    "released\n" },
  ["/alive"] = { "with_lock waits for a running with_lock in another light thread",
    "again 1 later, slept 1\n" },
  ["/ctx"] = { "a with_lock function that replaces ngx.ctx keeps its lock",
    "timeout, again 2, true\n" },
  ["/shared"] = { "a hold that two with_lock calls share lasts until both end",
    "true 1, again 1\n" },
  ["/subrequest"] = { "a with_lock around a subrequest releases its lock afterwards",
    "again 1\nagain 1\n" },
  ["/collections"] = { '"deadlock" between phases is found without a garbage collection',
    "deadlock, 0 collections\n" },
} do
  it(case[1], function() assert_answers(path, case[2]) end)
end

it('try_lock in a body filter gets "locked" while with_lock runs', function()
  assert_answers("/body_filter", "within\ncontent true\n")
  assert.equal("locked", nginx:value "asked")
end)

it('a phase gets "deadlock" for a lock that an earlier phase holds', function()
  local body = nginx:get("/phases?name=phases").body
  assert.matches('^deadlock lock "' .. prefix
    .. 'phases" is held by an earlier phase of this nginx request', body)
  assert.matches("\ndeadlock\nlocked\nagain 1\n$", body)
end)
