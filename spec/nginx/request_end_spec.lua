-- Tests that the locks and waits of an nginx request or worker end with it, however it ends.
-- Needs: one plain member, no sanitizer.

local RELOADS = tonumber(os.getenv "ETCDLOCK_RELOADS") or 5

local LOCATIONS = {
  ["/counts"] = [[ ngx.say(shared:get "came" or 0, " ", shared:get "granted" or 0) ]],

  -- Takes the lock |name| and holds it for |hold| seconds, 3600 by default.
  ["/hold"] = [[
    shared:incr("came", 1, 0)
    local lock = assert(client:lock(ngx.var.arg_name))
    shared:incr("granted", 1, 0)
    ngx.sleep(tonumber(ngx.var.arg_hold or 3600))
    local held = lock:held()
    assert(lock:unlock())
    ngx.say(held and "held " or "lost ", lock:token())
  ]],

  -- Takes a lock and ends without unlock, in the way |way|. For some ways it also asks for another
  -- lock, in a timer or a light thread.
  ["/end"] = [[
    local way, name = ngx.var.arg_way, ngx.var.arg_name
    local lock = assert(client:lock(name))
    kept = lock -- from the collector
    if way == "exit" then
      ngx.exit(204)
    elseif way == "error" then
      error "on purpose"
    elseif way == "timer" then
      ngx.timer.at(0, function()
        kept = assert(client:lock(name .. "/timer"))
        error "on purpose"
      end)
    elseif way == "kill" then
      local thread = ngx.thread.spawn(function() client:lock(name .. "/held") end)
      while client:stats().waiting == 0 do ngx.sleep(0.005) end
      ngx.thread.kill(thread)
    elseif way == "exec" then
      ngx.exec "/ready"
    end
  ]],
}

-- Returns the options of the client of a worker. Tests that kill a worker use a short |ttl|.
local function options(ttl, lock_delay)
  return { endpoints = etcd:endpoint(), prefix = prefix, ttl = ttl, lock_delay = lock_delay }
end

local function start(more)
  return start_nginx(clients.with(
    { client = options(10), locations = LOCATIONS, logs_errors = true }, more))
end

-- Waits until an nginx request takes and keeps the lock |name|. Tries again if a request loses the
-- lock, which may happen on a busy machine with a short TTL.
local function await_served(nginx, name)
  wait.eventually(function()
    local body = nginx:get("/hold?hold=0&name=" .. name).body
    return body:find "^held", body
  end, 5, "a new worker that takes " .. name)
end

-- Waits until etcd has no lease except that of the client in this process.
local function await_no_lease_of(what, seconds)
  wait.eventually(function()
    local leases = {}
    for _, lease in ipairs(etcd:leases()) do
      if lease ~= client:lease() then leases[#leases + 1] = lease end
    end
    return not leases[1], table.concat(leases, " ")
  end, seconds, "no lease of " .. what)
end

describe("an nginx request that its HTTP client aborts", function()
  it("leaves the queue; 200 aborted waits leave no key and no socket behind", function()
    local nginx = start()
    local pid, sockets = nginx:workers()[1], nil
    local lock = assert(client:lock "a")
    for _ = 1, 3 do
      local requests = {}
      for i = 1, 200 do requests[i] = nginx:begin "/hold?name=a" end
      nginx:await("/stats", "0 200", 10)
      etcd:await_keys(prefix .. "a/", 2)
      for i = 1, 200 do requests[i]:abort() end
      nginx:await("/stats", "0 0")
      etcd:await_keys(prefix .. "a/", 1)
      wait.eventually(function()
        local usage = Nginx.usage(pid)
        sockets = sockets or usage.sockets
        return usage.sockets <= sockets + 3, usage.sockets .. " sockets"
      end, 5, "no more sockets than before")
    end
    assert(lock:unlock())
  end)
end)

describe("the locks of an nginx request", function()
  for _, way in ipairs { "exit", "error", "timer", "kill", "exec", "return" } do
    it("are released without unlock when it ends (case: " .. way .. ")", function()
      local nginx = start()
      local blocker = assert(client:lock(way .. "/held"))
      nginx:get(("/end?way=%s&name=%s"):format(way, way))
      assert(blocker:unlock())
      nginx:await("/stats", "0 0")
      etcd:await_keys(prefix .. way .. "/", 0)
    end)
  end
end)

describe("the wake-up socket of an nginx worker", function()
  it("leaves no file and rejects connections of other processes", function()
    local nginx = start()
    local request = nginx:begin "/hold?name=a&hold=1"
    etcd:await_keys(prefix .. "a/", 1)
    nginx:await_no_files()
    local pipe, answer = uv.new_pipe(false), nil
    pipe:connect(assert(next(nginx:wake_sockets())), function(failure)
      if failure then answer = failure return end
      pipe:read_start(function(reading, data) answer = data or reading or "turned away" end)
    end)
    wait.eventually(function() return answer end, 5, "an answer")
    pipe:close()
    assert.is_true(answer == "turned away" or answer == "ECONNRESET", answer)
    assert.matches("^held", request:wait(5).body)
  end)
end)

describe("nginx", function()
  it(("serves every request while it reloads %d times under load"):format(RELOADS), function()
    local nginx = start { workers = 2 }
    local requests, answers, before = {}, 0, nil
    local function go_on()
      for i = 1, 8 do
        if requests[i] and requests[i].done then
          local token = requests[i].body:match "^held (%d+)"
          assert.is_string(token, requests[i].failure or requests[i].body)
          answers, requests[i] = answers + 1, nil
        end
        requests[i] = requests[i] or nginx:begin "/hold?name=load&hold=0.002"
      end
      return answers > before + 20
    end
    for _ = 1, RELOADS do
      before = answers
      nginx:reload(go_on, 15)
    end
    for i = 1, 8 do if requests[i] then requests[i]:wait() end end
    etcd:await_keys(prefix .. "load/", 0)
    nginx:await_no_files()
    nginx:finish "sigterm"
    nginx:assert_no_errors()
    await_no_lease_of("the workers", 5)
  end)

  for _, signal in ipairs { "sigquit", "sigterm" } do
    it("exits on " .. signal .. " while requests hold and wait, and leaves nothing", function()
      local nginx = start { workers = 2 }
      local requests = {}
      for i = 1, 20 do requests[i] = nginx:begin "/hold?name=end&hold=0.05" end
      wait.eventually(function()
        local body = nginx:get("/counts").body
        return body:find "^20 [1-9]", body
      end, 5, "all have come, and the first one holds")
      local workers = nginx:workers()
      local took = nginx:finish(signal, 5)
      assert.is_true(took < 5 + wait.SLACK, took)
      for _, pid in ipairs(workers) do assert.falsy(uv.kill(pid, 0)) end
      local served = 0
      for i = 1, 20 do
        if requests[i]:wait().status == 200 then served = served + 1 end
      end
      -- On SIGQUIT nginx serves all requests before it exits.
      if signal == "sigquit" then assert.equal(20, served) end
      etcd:await_keys(prefix .. "end/", 0, 1)
      await_no_lease_of("nginx", 5)
      nginx:await_no_files()
      nginx:assert_no_errors()
    end)
  end

  it("exits on SIGTERM while etcd is silent, and its keys expire later", function()
    local nginx = start { client = options(2) }
    local requests = {}
    for i = 1, 5 do requests[i] = nginx:begin "/hold?name=silent" end
    etcd:await_keys(prefix .. "silent/", 1)
    etcd:pause()
    nginx:finish("sigterm", 5)
    etcd:resume()
    for i = 1, 5 do requests[i]:wait() end
    nginx:await_no_files()
    etcd:await_keys(prefix .. "silent/", 0, 10)
  end)

  it("keeps the lock of a killed worker from other clients for the lock delay", function()
    local nginx = start { client = options(2, 4) }
    local holder = nginx:begin "/hold?name=delayed"
    etcd:await_keys(prefix .. "delayed/", 1)
    local from = wait.now()
    assert(uv.kill(nginx:workers()[1], "sigkill"))
    holder:wait()
    local lock = assert(client:lock("delayed", { timeout = 40 }))
    assert.is_true(wait.now() - from >= 4)
    assert(lock:unlock())
    await_served(nginx, "delayed")
    nginx:await_no_files()
  end)

  -- Regression 103. A timer that looks for dropped clients kept the Lua state of the request alive,
  -- and so its client.
  it("with lua_code_cache off releases the client and locks of each request at its end", function()
    local nginx = start {
      client = false,
      http = "lua_code_cache off;",
      locations = {
        ["/vm"] = [[
          local client = connect()
          kept = client -- a global of the Lua state of the request
          local lock = assert(client:lock "vm")
          ngx.sleep(0.005)
          assert(lock:held())
          if ngx.var.arg_close then
            assert(lock:unlock())
            client:close()
          end
          ngx.say "held"
        ]],
      },
    }
    local pid, requests = nginx:workers()[1], {}
    local before = Nginx.usage(pid)
    for i = 1, 8 do requests[i] = nginx:begin(i % 2 == 0 and "/vm" or "/vm?close=1") end
    for i = 1, 8 do assert.equal("held\n", requests[i]:wait(20).body) end
    assert.equal(pid, nginx:workers()[1])
    etcd:await_keys(prefix .. "vm/", 0)
    await_no_lease_of("a request", 5)
    wait.eventually(function() return Nginx.usage(pid).threads <= before.threads + 3 end, 10)
    nginx:await_no_files()
  end)
end)
