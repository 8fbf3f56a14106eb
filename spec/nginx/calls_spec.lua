-- Tests what an nginx request can do with a lock, and that its worker serves other requests
-- while the request waits.
-- Needs: one plain member, no sanitizer.

local LOCATIONS = {
  ["/all"] = [[
    local data = prefix .. "data"
    local told = {}
    local ok, a, b = client:with_lock("all", function(lock)
      told[#told + 1] = tostring(lock:check())
      told[#told + 1] = tostring(lock:put(data, "1"))
      told[#told + 1] = tostring(lock:get(data))
      told[#told + 1] = tostring(lock:txn({ { "get", data }, { "delete", data } })[1])
      told[#told + 1] = tostring(lock:get(data))
      told[#told + 1] = tostring(lock:wait_lost(0.05))
      told[#told + 1] = tostring(#client:queue "all")
      ngx.sleep(0)
      return "of", "fn"
    end)
    told[#told + 1] = tostring(client:ping() < 5)
    ngx.say(tostring(ok), " ", a, " ", b, ": ", table.concat(told, " "))
  ]],

  ["/once"] = [[
    local told, threads = {}, {}
    for i = 1, 3 do
      threads[i] = ngx.thread.spawn(function()
        local ran, answer = client:once("once", "ever", function()
          ngx.sleep(0.05)
          return "ran"
        end)
        told[i] = ran and answer or answer:match "nothing to do"
      end)
    end
    for i = 1, 3 do ngx.thread.wait(threads[i]) end
    table.sort(told)
    ngx.say(table.concat(told, ", "))
  ]],

  -- Takes the lock |name|, waits for the flag go-NAME, calls the method |what| of the lock
  -- and answers its results.
  ["/then"] = [[
    local what, name = ngx.var.arg_what, ngx.var.arg_name
    local lock = assert(client:lock(name))
    shared:set("holds-" .. name, true)
    await("go-" .. name)
    local a, b, c
    if what == "put" then
      a, b, c = lock:put(prefix .. "written", "x")
    else
      a, b, c = lock[what](lock)
    end
    if what ~= "unlock" then lock:unlock() end
    ngx.say(tostring(a), " ", tostring(b), " ", tostring(c))
  ]],

  ["/hand_over"] = [[
    local lock = assert(client:lock(ngx.var.arg_name))
    handed = handed or {}
    handed[ngx.var.arg_name] = lock
    shared:set("holds-" .. ngx.var.arg_name, true)
    await("go-" .. ngx.var.arg_name)
    ngx.say(tostring(lock:held()))
  ]],
  ["/unlock"] = {
    content = [[
      if ngx.var.arg_where == "content" then
        ngx.say(tostring(handed[ngx.var.arg_name]:unlock()))
      elseif ngx.var.arg_where == "timer" then
        ngx.timer.at(0, function(_, lock) lock:unlock() end, handed[ngx.var.arg_name])
      end
    ]],
    log = [[
      if ngx.var.arg_where == "log" then handed[ngx.var.arg_name]:unlock() end
    ]],
  },

  ["/on_lost"] = [[
    local lock, where = assert(client:lock "watched"), nil
    lock:on_lost(function(_, reason) where = reason .. " told to " .. ngx.var.uri end)
    shared:set("holds-watched", true)
    await "go-watched"
    local before = tostring(where)
    ngx.say(before, ", ", tostring(lock:held()), ", ", where)
  ]],
  ["/other"] = [[
    ngx.say(tostring(client:with_lock("other", function() end)), " ", client:stats().held)
  ]],

  ["/close"] = [[
    local other, told, threads = connect(), {}, {}
    local blocker = assert(client:lock "closing")
    for i = 1, 3 do
      threads[i] = ngx.thread.spawn(function()
        told[i] = select(3, other:lock "closing")
      end)
    end
    while other:stats().waiting < 3 do ngx.sleep(0.005) end
    local held = assert(other:lock "closed")
    other:close()
    for i = 1, 3 do ngx.thread.wait(threads[i]) end
    told[4] = select(2, held:held())
    told[5] = select(3, held:unlock())
    blocker:unlock()
    -- Each client may get the socket path of the one before. nginx may still keep
    -- connections to that one for later use.
    for _ = 1, 3 do
      other = connect()
      told[6] = tostring(other:with_lock("closing", function() end))
      other:close()
    end
    ngx.say(table.concat(told, " "))
  ]],

  ["/blocking"] = [[
    local other, code = connect { loop = "none" }, nil
    for _ = 1, 20 do
      code = select(3, other:lock("timed", { timeout = 0.3 }))
      if code ~= "unavailable" then break end -- etcd was silent
    end
    local lock = assert(other:lock("blocking", { timeout = 60 }))
    ngx.say(code, " ", tostring(lock:unlock()))
    other:close()
  ]],
}

with_nginx {
  client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 10 },
  logs_errors = true, -- a lost lock
  init_worker = ("prefix = %q"):format(prefix),
  locations = LOCATIONS,
}

describe("an nginx request", function()
  it("can use with_lock, check, put, get, txn, wait_lost, queue and ping", function()
    assert.equal("true of fn: true true 1 1 false nil 1 true\n", nginx:get("/all").body)
    etcd:await_keys(prefix .. "all/", 0)
  end)

  it("can run a job once; its light threads wait for the run", function()
    finally(function() etcd:del(prefix .. "once.last-run") end)
    assert.equal("nothing to do, nothing to do, ran\n", nginx:get("/once").body)
  end)

  for _, what in ipairs { "put", "check", "unlock" } do
    it("that calls " .. what .. " waits for a silent etcd; its worker serves others", function()
      local request = nginx:begin(("/then?what=%s&name=%s"):format(what, what))
      nginx:await_value("holds-" .. what, "true")
      etcd:pause()
      nginx:set_value("go-" .. what, "now")
      for _ = 1, 5 do
        local ping = nginx:get "/ready"
        assert.is_true(ping.took < 1 + wait.SLACK, ping.took)
        assert.falsy(request.done)
        wait.sleep(0.01)
      end
      etcd:resume()
      assert.matches("^true ", request:wait(10).body)
      etcd:await_keys(prefix .. what .. "/", 0)
      etcd:del(prefix .. "written")
    end)
  end

  it('gets "unavailable" from unlock after 2 s if etcd is silent; the release follows', function()
    local request = nginx:begin "/then?what=unlock&name=silent"
    nginx:await_value("holds-silent", "true")
    etcd:pause()
    nginx:set_value("go-silent", "now")
    request:wait(2 + wait.SLACK)
    etcd:resume()
    assert.matches("^nil lock .* has not confirmed .* unavailable", request.body)
    assert.is_true(request.took > 1.9)
    etcd:await_keys(prefix .. "silent/", 0)
  end)

  it('blocks its worker while it waits if the client has loop = "none"', function()
    local timed, lock = assert(client:lock "timed"), assert(client:lock "blocking")
    local request = nginx:begin "/blocking"
    etcd:await_keys(prefix .. "blocking/", 2)
    local ping = nginx:begin "/ready"
    wait.sleep(0.1)
    assert.falsy(ping.done)
    assert(lock:unlock())
    assert.equal("timeout true\n", request:wait(5).body)
    assert(timed:unlock())
    assert.equal("ready\n", ping:wait().body)
  end)

  it('gets "closed" from waits and holds of a client it closed, and can connect again', function()
    for _ = 1, 3 do
      assert.equal("closed closed closed closed closed true\n", nginx:get("/close").body)
    end
    etcd:await_keys(prefix .. "closing/", 0)
    etcd:await_keys(prefix .. "closed/", 0)
  end)
end)

describe("a lock held by one nginx request", function()
  for _, where in ipairs { "content", "log", "timer" } do
    it("is released by unlock in another request (phase: " .. where .. ")", function()
      local holder = nginx:begin("/hand_over?name=" .. where)
      nginx:await_value("holds-" .. where, "true")
      local answer = nginx:get(("/unlock?name=%s&where=%s"):format(where, where))
      if where == "content" then assert.equal("true\n", answer.body) end
      etcd:await_keys(prefix .. where .. "/", 0)
      assert.falsy(holder.done)
      nginx:set_value("go-" .. where, "now")
      assert.equal("false\n", holder:wait().body)
      -- The end of the first request does not affect the next hold.
      assert(assert(client:lock(where)):unlock())
    end)
  end

  it("calls on_lost only in that request, also if another one runs first", function()
    local holder = nginx:begin "/on_lost"
    nginx:await_value("holds-watched", "true")
    etcd:del((etcd:keys(prefix .. "watched/"))[1])
    nginx:await("/other", "true 0") -- the worker knows of it
    assert.same({}, etcd:keys(prefix .. "watched/"))
    nginx:set_value("go-watched", "now")
    assert.equal("nil, false, deleted told to /on_lost\n", holder:wait().body)
  end)
end)
