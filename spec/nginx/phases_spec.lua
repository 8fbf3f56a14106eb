-- Tests in which nginx phases a call can wait, and which owner a lock has among light threads,
-- timers, phases and requests.
-- Needs: one plain member, no sanitizer.

-- Returns the configuration of a TLS server that runs try_all in |phase| of the handshake,
-- and its port.
local function tls_server(phase)
  local server, at = suite.cast().server, port.free()
  return ([[
    server {
      listen 127.0.0.1:%s ssl;
      ssl_certificate %s;
      ssl_certificate_key %s;
      %s_by_lua_block { try_all "%s" }
      location / { content_by_lua_block { ngx.say "over TLS" } }
    }
  ]]):format(at, server.cert, server.key, phase, phase), at
end

local CERTIFICATE, certificate_port = tls_server "ssl_certificate"
local HELLO, hello_port = tls_server "ssl_client_hello"

local INIT = [[
  ffi = require "ffi"
  ffi.cdef "int usleep(unsigned microseconds);"
  -- Stores in one line how calls end in the phase |name|: lock, the reason in its message,
  -- with_lock, ping, try_lock, check, held, unlock.
  function try_all(name)
    local told = {}
    local lock, message, code = client:lock(name .. "/wait", { timeout = 10 })
    told[1] = lock and "held" or code
    told[2] = message and message:match "%((.-)[%);]" or "-"
    told[3] = select(3, client:with_lock(name .. "/with", function() return 1 end)) or "ran"
    told[4] = select(3, client:ping()) or "pong"
    -- Where nginx cannot wait, etcd has 100 ms each time, which a busy machine may not keep.
    for _ = 1, 100 do
      lock, message, code = client:try_lock(name .. "/try")
      if code ~= "unavailable" then break end
      ffi.C.usleep(100000)
    end
    told[5] = lock and "held" or code
    local checked, _, why
    if lock then checked, _, why = lock:check() end
    told[6] = lock and not checked and why or "-"
    told[7] = lock and lock:held() and "yes" or "no"
    if lock then
      local ok
      ok, message, code = lock:unlock()
      told[8] = ok and "released" or code
    end
    for i = 1, 8 do told[i] = tostring(told[i]) end
    shared:set(name, table.concat(told, "|"))
  end
]]

-- The results that try_all stores in a phase that can wait.
local WAITED = "held|-|ran|pong|held|-|yes|released"

-- The same in a phase that cannot wait. `unlock` does not wait either: it returns true while
-- the release is under way.
local REFUSED = "context|%s|context|context|held|context|yes|released"

local LOCATIONS = {
  ["/connect"] = [[ ngx.say(shared:get "connect", " ", shared:get "default") ]],

  ["/rewrite"] = {
    rewrite = [[ try_all "rewrite" ]],
    access = [[ try_all "access" ]],
    content = [[ ngx.say "done" ]],
  },
  ["/filters"] = {
    content = [[ ngx.say "done" ]],
    header_filter = [[ try_all "header_filter" ]],
    body_filter = [[ if ngx.arg[2] then try_all "body_filter" end ]],
    log = [[ try_all "log" ]],
  },
  ["/calls"] = {
    content = [[ ngx.say "done" ]],
    header_filter = [[
      local lock = client:try_lock "calls"
      if not lock then return end -- etcd has 100 ms here, as above
      local election, semaphore = client:election "calls/e", client:semaphore("calls/s", 2)
      local observer = (election:observe())
      local told, nothing = {}, function() end
      local calls = {
        lock = function() return client:lock "calls/1" end,
        with_lock = function() return client:with_lock("calls/1", nothing) end,
        ["lock of a held name"] = function() return client:lock "calls" end,
        ["lock, timeout = 0"] = function() return client:lock("calls/2", { timeout = 0 }) end,
        ["with_lock, timeout = 0"] = function()
          return client:with_lock("calls/3", { timeout = 0 }, nothing)
        end,
        try_read_lock = function() return client:try_read_lock "calls/4" end,
        try_multi_lock = function() return client:try_multi_lock { "calls/5", "calls/6" } end,
        ["semaphore:try_lock"] = function() return semaphore:try_lock() end,
        try_campaign = function() return election:try_campaign "me" end,
        lock_async = function()
          local pending = client:lock_async "calls/7"
          return pending and pending:step() ~= nil and pending:cancel()
        end,
        multi_lock = function() return client:multi_lock { "calls/8" } end,
        campaign = function() return client:election("calls/f"):campaign "me" end,
        ["semaphore:available"] = function() return semaphore:available() end,
        leader = function() return election:leader() end,
        ["observer:next"] = function() return observer:next(0) end,
        check = function() return lock:check() end,
        put = function() return lock:put("w", "y") end,
        get = function() return lock:get "x" end,
        txn = function() return lock:txn { { "get", "x" } } end,
        wait_lost = function() return lock:wait_lost(0) end,
        queue = function() return client:queue "calls" end,
        queues = function() return client:queues() end,
        once = function() return client:once("calls/9", 60, nothing) end,
        runs = function() return client:runs() end,
        break_lock = function() return client:break_lock("calls", 1) end,
        status = function() return client:status() end,
        ping = function() return client:ping() end,
        held = function() return lock:held() end,
        remaining = function() return lock:remaining() end,
        expire = function() return lock:expire(60) end,
        on_lost = function() return lock:on_lost(nothing) end,
        stats = function() return client:stats() end,
        metrics = function() return client:metrics() end,
        alive = function() return client:alive() end,
        connect = function() other = connect() return other end,
      }
      for name, call in pairs(calls) do
        local ok, got, message, code = pcall(call)
        local result = not ok and got or got and "works" or code or "false"
        if code == "unavailable" then return end
        told[#told + 1] = name .. " " .. result
      end
      told[#told + 1] = "unlock " .. (lock:unlock() and "works" or "fails")
      told[#told + 1] = "client:close " .. (other:close() and "works" or "fails")
      table.sort(told)
      shared:set("calls", table.concat(told, "\n"))
    ]],
  },
  ["/set"] = {
    conf = [[ set_by_lua_block $done { try_all "set" return "done" } ]],
    content = [[ ngx.say(ngx.var.done) ]],
  },
  ["/balanced"] = { conf = [[ proxy_pass http://balanced/ready; ]] },

  ["/boundary"] = [[
    local codes = {}
    local function try(_, _)
      local lock, _, code = client:lock "boundary"
      codes[#codes + 1] = lock and "held" or code
      return false
    end
    table.sort({ 1, 2 }, try)
    ; ("x"):gsub("x", function() try() end)
    local waited = pcall(coroutine.wrap(function() codes[#codes + 1] = client:lock "a" end))
    codes[#codes] = waited and codes[#codes]:name()
    ngx.say(table.concat(codes, " "))
  ]],

  ["/timer"] = [[
    assert(ngx.timer.at(0, function()
      try_all "timer"
    end))
    ngx.say "done"
  ]],

  ["/threads"] = [[
    local owner = ngx.var.arg_owner
    local inside, most, counts = 0, 0, {}
    local function work()
      local lock = assert(client:lock("threads", { owner = owner }))
      inside = inside + 1
      most = math.max(most, inside)
      counts[#counts + 1] = lock:count()
      ngx.sleep(0.1)
      inside = inside - 1
      assert(lock:unlock())
    end
    local threads = {}
    for i = 1, 3 do
      threads[i] = ngx.thread.spawn(work)
      while owner and inside < i do ngx.sleep(0.001) end
    end
    for i = 1, 3 do assert(ngx.thread.wait(threads[i])) end
    ngx.say(most, " at once, counts ", table.concat(counts, " "))
  ]],

  ["/across"] = {
    access = [[ ngx.ctx.lock = assert(client:lock("across", { owner = "request" })) ]],
    content = [[
      local lock = assert(client:lock("across", { owner = "request" }))
      local other, _, code = client:try_lock "across"
      ngx.say(lock == ngx.ctx.lock, " ", lock:count(), " ", tostring(other), " ", code)
    ]],
    log = [[
      ngx.ctx.lock:unlock()
      ngx.ctx.lock:unlock()
    ]],
  },

  -- Takes a lock without unlock and keeps the handle from the garbage collector.
  ["/leave"] = [[
    local lock, message, code = client:lock(ngx.var.arg_name,
      { timeout = 10, owner = ngx.var.arg_owner })
    if not lock then return ngx.say("refused ", code, " ", message) end
    kept = kept or {}
    kept[#kept + 1] = lock
    ngx.say("count=", lock:count(), " token=", lock:token(), ".")
  ]],
}

with_nginx {
  client = false,
  logs_errors = true, -- leaked locks
  init = INIT .. [[
    local early, message, code = connect()
    shared:set("connect", tostring(early) .. " " .. code .. " " .. message)
    shared:set("default", select(3, etcdlock.with_lock("early", function() end)))
  ]],
  init_worker = [[
    client = assert(connect())
    try_all "init_worker"
  ]],
  http = [[
    upstream balanced { server 0.0.0.1; balancer_by_lua_block {
      try_all "balancer"
      require("ngx.balancer").set_current_peer("127.0.0.1", tonumber(ngx.var.server_port))
    } }
    ssl_session_fetch_by_lua_block { try_all "ssl_session_fetch" }
  ]] .. CERTIFICATE .. HELLO,
  locations = LOCATIONS,
}

local function assert_waited(name)
  assert.equal(WAITED, (nginx:value(name):gsub("|[%d.]+|", "|nil|")))
end

-- Waits until the value |name| is there, and returns it.
local function told(name)
  wait.eventually(function() return nginx:value(name) ~= "nil" end, 5, name)
  return nginx:value(name)
end

-- Returns what the TLS server on port |at| answers.
local function get_over_tls(at)
  local ask = [[printf 'GET / HTTP/1.0\r\n\r\n' | openssl s_client -quiet -connect 127.0.0.1:]]
  return (proc.run { "sh", "-c", ask .. at })
end

describe("init_by_lua", function()
  it('can require etcdlock; connect and with_lock fail with "context" before the fork', function()
    local body = nginx:get("/connect").body
    assert.matches("^nil context .*init_by_lua, before nginx forks its workers.* context\n", body)
  end)
end)

describe("where nginx can yield,", function()
  for _, phase in ipairs { "rewrite", "access" } do
    it(phase .. "_by_lua waits for a lock and for answers of etcd", function()
      nginx:get "/rewrite"
      assert_waited(phase)
      etcd:await_keys(prefix .. phase .. "/try", 0)
    end)
  end

  it("ssl_certificate_by_lua waits for a lock, and the TLS handshake completes", function()
    assert.matches("over TLS\n$", get_over_tls(certificate_port))
    assert_waited "ssl_certificate"
    etcd:await_keys(prefix .. "ssl_certificate/try", 0)
  end)

  it("a timer waits for a lock and for answers of etcd", function()
    nginx:get "/timer"
    told "timer"
    assert_waited "timer"
    -- try_all does not unlock the lock that it waited for; the end of the timer releases it.
    etcd:await_keys(prefix .. "timer", 0)
  end)
end)

describe("where nginx cannot yield,", function()
  local PATHS = {
    init_worker = "/ready", set = "/set", header_filter = "/filters", body_filter = "/filters",
    log = "/filters", balancer = "/balanced",
  }
  for phase, path in pairs(PATHS) do
    it(phase .. '_by_lua gets "context" for a wait; try_lock and unlock work', function()
      local answer = nginx:get(path)
      assert.is_string(answer.status and answer.body, answer.failure)
      assert.equal(REFUSED:format("this is " .. phase .. "_by_lua"), told(phase))
      etcd:await_keys(prefix .. phase .. "/", 0)
    end)
  end

  -- Regression 215. In a LuaJIT with the functions of Lua 5.2 (OpenResty's, and Debian's after 13)
  -- coroutine.running returns the main coroutine, in which these phases run. Then no call was
  -- reentrant there.
  it("each call does what doc/nginx.md says", function()
    wait.eventually(function()
      nginx:get "/calls"
      return nginx:value "calls" ~= "nil"
    end, 10, "answers of etcd in 100 ms each")
    local expected = {}
    for outcome, calls in pairs {
      context = { "lock", "with_lock", "multi_lock", "campaign", "semaphore:available", "leader",
        "observer:next", "check", "put", "get", "txn", "wait_lost", "queue", "queues",
        "once", "runs", "break_lock", "status", "ping" },
      works = { "lock, timeout = 0", "with_lock, timeout = 0", "lock of a held name",
        "try_read_lock", "try_multi_lock", "semaphore:try_lock", "try_campaign", "lock_async",
        "unlock", "client:close", "held", "remaining", "expire", "on_lost", "stats", "metrics",
        "alive", "connect" },
    } do
      for _, name in ipairs(calls) do expected[#expected + 1] = name .. " " .. outcome end
    end
    table.sort(expected)
    assert.equal(table.concat(expected, "\n"), told "calls")
  end)

  -- nginx lets this phase yield, but some versions do not resume the handshake afterwards.
  it('ssl_client_hello_by_lua gets "context" for a wait; try_lock and unlock work', function()
    assert.matches("over TLS\n$", get_over_tls(hello_port))
    assert.equal(REFUSED:format "this is ssl_client_hello_by_lua", told "ssl_client_hello")
    etcd:await_keys(prefix .. "ssl_client_hello/", 0)
  end)

  -- Regression 141. Without a patch of OpenSSL, nginx drops a handler of this phase that yields.
  it('ssl_session_fetch_by_lua gets "context" for a wait', function()
    local ask = "printf R | openssl s_client -tls1_2 -no_ticket -reconnect -connect 127.0.0.1:"
    proc.run { "sh", "-c", ask .. certificate_port }
    assert.equal(REFUSED:format "this is ssl_session_fetch_by_lua", told "ssl_session_fetch")
    etcd:await_keys(prefix .. "ssl_session_fetch/", 0)
  end)

  it('a callback of a C function gets "context" for a wait, and the worker goes on', function()
    assert.equal("context context a\n", nginx:get("/boundary").body)
    assert.equal("context context a\n", nginx:get("/boundary").body)
    etcd:await_keys(prefix .. "boundary", 0)
    etcd:await_keys(prefix .. "a/", 0)
  end)
end)

describe("a light thread of an nginx request", function()
  it("waits while another one of the same request holds the lock", function()
    assert.equal("1 at once, counts 1 1 1\n", nginx:get("/threads").body)
  end)

  it("shares a hold with another one that names the same owner", function()
    assert.equal("3 at once, counts 1 2 3\n", nginx:get("/threads?owner=us").body)
    etcd:await_keys(prefix .. "threads", 0)
  end)
end)

it("the phases of an nginx request share a hold only if they name the same owner", function()
  assert.equal("true 2 nil locked\n", nginx:get("/across").body)
  etcd:await_keys(prefix .. "across", 0)
end)

describe("a hold that an nginx request does not unlock", function()
  it("ends with the request; the next request gets a new hold", function()
    local COUNT, requests, seen, holds = 50, {}, {}, 0
    for i = 1, 2 do requests[i] = nginx:begin("/leave?name=left", { times = COUNT }) end
    for i = 1, 2 do
      for count, token in requests[i]:wait(20).body:gmatch "count=(%d+) token=(%d+)" do
        assert.equal("1", count)
        assert.falsy(seen[token], "the same hold twice")
        seen[token], holds = true, holds + 1
      end
    end
    assert.equal(2 * COUNT, holds)
    etcd:await_keys(prefix .. "left", 0)
  end)

  it("is not shared with a later request that names the same owner", function()
    local answer = nginx:begin("/leave?name=owned&owner=us", { times = 20 }):wait(20)
    assert.equal(20, select(2, answer.body:gsub("count=1 token=", "")))
    etcd:await_keys(prefix .. "owned", 0)
  end)
end)
