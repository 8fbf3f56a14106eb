-- Tests what nginx logs about long waits, errors, and lost and leaked locks.
-- Needs: one plain member.

-- Regression 118. Two nginx requests that take the same two locks in opposite order wait for each
-- other. Such requests hung without a message until their HTTP clients went away.
describe("in nginx", function()
  with_nginx {
    client = false, logs_errors = true,
    init_worker = [[
      client = connect { log = function(event)
        if event.level == "warn" then ngx.log(ngx.WARN, tostring(event)) end
      end }
    ]],
    locations = {
      ["/nested"] = [[
        local first, second = ngx.var.arg_first, ngx.var.arg_second
        local from = ngx.now()
        local _, lock, message, code = client:with_lock(first, function()
          while client:stats().held < 2 do ngx.sleep(0.01) end
          return client:lock(second)
        end)
        ngx.update_time()
        ngx.say(lock and "locked" or code .. " " .. message .. " " .. ngx.now() - from)
      ]],
      ["/lock"] = [[
        local timeout = tonumber(ngx.var.arg_timeout) or math.huge
        local lock, message, code = client:lock(ngx.var.arg_name, { timeout = timeout })
        ngx.say(tostring(lock and lock:unlock()), " ", tostring(code), " ", tostring(message))
      ]],
    },
  }

  it("locks taken in opposite order without a timeout end after 5 s, and name the holder",
    function()
      local first = nginx:begin "/nested?first=a&second=b"
      local second = nginx:begin "/nested?first=b&second=a"
      local bodies = { first:wait(20).body, second:wait(20).body }
      local is_named = false
      for _, body in ipairs(bodies) do
        local seconds = tonumber(body:match "^timeout .* ([%d.]+)\n$" or nil)
        assert.is_true(body == "locked\n" or seconds and seconds >= 5, body)
        is_named = is_named
          or body:find "was not free within 5 s; holder: this process, pid %d+ on " ~= nil
      end
      -- One message is enough: after the first timeout, the other request may have got the lock, or
      -- found it just released.
      assert.is_true(is_named, table.concat(bodies))
    end)

  it("a wait with timeout = math.huge has no limit, and is logged with the holder after 10 s",
    function()
      local held = assert(connect():lock("c", { value = "nightly report" }))
      local waiting = nginx:begin "/lock?name=c"
      local text = ('lock "%sc": still waiting after 1[%%d.]+ s; holder[^:]*: pid %d on '
        .. '[^ ]+, queued since [%%d-]+ [%%d:]+, value "nightly report"')
        :format(prefix, uv.os_getpid())
      wait.eventually(function() return nginx:log():find(text) end, 20, "the wait in the log")
      assert(held:unlock())
      assert.equal("true nil nil\n", waiting:wait(10).body)
    end)
end)

-- Regression 123. with_lock raises an error of its function again, after the release. In nginx and
-- LuaJIT the stack of the error no longer exists at that time. So nginx's log showed only a place
-- in etcdlock.
describe("in nginx, the traceback of an error inside with_lock", function()
  local nginx

  -- Starts nginx; |options| are more options of connect.
  local function start(options)
    nginx = start_nginx {
      client = false, logs_errors = true,
      init_worker = ("client = connect { %s }"):format(options),
      locations = {
        ["/nested"] = [[
          local function deep_down() error "on purpose" end
          client:with_lock("a", function()
            client:with_lock("b", function()
              deep_down()
              return nil
            end)
            return nil
          end)
        ]],
        ["/caught"] = [[
          local failure = { "an object" }
          local ok, caught = pcall(client.with_lock, client, "a", function()
            ngx.sleep(0.01)
            error(failure)
          end)
          ngx.say(tostring(ok), " ", tostring(caught == failure), " ", client:stats().held)
        ]],
      },
    }
  end

  local function count(text) return select(2, nginx:log():gsub(text, "")) end

  it("is in the error log, once for nested calls", function()
    start ""
    assert.equal(500, nginx:get("/nested").status)
    assert.equal(1, count('lock "' .. prefix
      .. 'b": the function of with_lock raised an error: [^\n]*on '
      .. "purpose | stack traceback: |[^\n]*in function 'deep_down'"))
    assert.equal(1, count "the function of with_lock raised an error")
    assert.equal("false true 0\n", nginx:get("/caught").body)
    assert.equal(1, count "the function of with_lock raised an error") -- none for an error object
  end)

  it('is in the event "raised" of the log function', function()
    start [[log = function(event)
      if event.event == "raised" then shared:set("told", event.name .. ": " .. event.message) end
    end]]
    nginx:get "/nested"
    assert.matches("^" .. prefix .. "b: .*on purpose\nstack traceback:\n.*in function 'deep_down'",
      nginx:value "told")
    assert.equal(0, count "the function of with_lock raised an error")
  end)
end)

-- Regression 173. A lock that was lost in nginx left no trace if the client had no option `log`.
it("in nginx, a lost lock is in the error log with the level error", function()
  local nginx = start_nginx {
    logs_errors = true,
    locations = {
      ["/hold"] = [[
        local lock = assert(client:lock "lost")
        ngx.say(lock:token())
        ngx.flush(true)
        lock:wait_lost(10)
      ]],
      ["/other"] = [[ ngx.say(client:try_lock "other" ~= nil) ]],
    },
  }
  local holder, client, token = nginx:begin "/hold", connect(), nil
  wait.eventually(function()
    local entry = client:queue "lost"[1]
    token = entry and entry.token
    return token
  end, 10, "the holder")
  assert.is_true(client:break_lock("lost", token))
  assert.equal(token .. "\n", holder:wait(10).body)
  assert.equal("true\n", nginx:get("/other").body)
  assert.matches(('%%[error%%] [^\n]*etcdlock: lock "%slost": lost after [%%d.]+ s, token %d, '
    .. "deleted: the key was deleted"):format(prefix, token), nginx:log())
end)

-- Regression 201. A leaked lock was in the error log with the level warn, which nginx drops by
-- default.
it("in nginx, a leaked lock is in the error log with the level error", function()
  local nginx = start_nginx {
    logs_errors = true,
    locations = {
      ["/leak"] = [[
        assert(client:lock "forgotten")
        collectgarbage()
        collectgarbage()
        ngx.say(client:stats().leaked)
      ]],
    },
  }
  assert.equal("1\n", nginx:get("/leak").body)
  assert.matches('%[error%] [^\n]*etcdlock: lock "' .. prefix
    .. 'forgotten" was released because its handle was ', nginx:log())
end)
