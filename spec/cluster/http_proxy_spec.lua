-- Tests a proxy that speaks HTTP/2 between the client and etcd, such as nginx with grpc_pass.
-- Needs: one plain member.

local STATUS = error_rows.STATUS
local N = 30 -- locks

-- Long, so that no lease expires, and no waiter reads the queue again before the test has ended.
local TTL = 300

describe("an nginx with grpc_pass", function()
  local nginx, endpoint

  -- The requests of N locks, and the messages that create N watches, exceed LIMIT bytes several
  -- times. One request does not.
  local LIMIT, NAME = 2048, ("n"):rep(100)

  setup(function()
    local limited, refusing = port.free(), port.free()
    endpoint = { limited = "127.0.0.1:" .. limited, refusing = "127.0.0.1:" .. refusing }
    local etcd_address = suite.endpoint():gsub("^http://", "")
    nginx = Nginx.start { logs_errors = true, client = false, http = ([[
      server {
        listen %s http2;
        client_max_body_size %d;
        location / { grpc_pass grpc://%s; grpc_read_timeout 1h; }
      }
      server {
        listen %s http2;
        location / { content_by_lua_block { ngx.exit(shared:get "status") } }
        location /etcdserverpb.Lease/ { grpc_pass grpc://%s; }
      }
    ]]):format(endpoint.limited, LIMIT, etcd_address, endpoint.refusing, etcd_address),
      locations = { ["/status"] = [[ shared:set("status", tonumber(ngx.var.arg_it)) ]] } }
  end)
  after_each(clear_etcd)

  local function lock_all(client, opts)
    local all = {}
    for i = 1, N do all[i] = assert(client:lock_async(NAME .. i, opts)) end
    return all
  end

  -- Regression 279. The status 413 counted as a failure of etcd that may end by itself: the client
  -- sent the same batch again until the calls timed out.
  it("refuses a batch above its limit, and the client sends the requests one by one", function()
    local client = connect { endpoints = endpoint.limited, ttl = TTL }
    local all = lock_all(client)
    for _, pending in ipairs(all) do clients.keep(clients.granted(pending)) end
    assert.equal(0, client:stats().failed_attempts)
  end)

  -- Regression 280. The client sent a single request that was too large again until the timeout.
  it('refuses a request above its limit, which then fails with "invalid"', function()
    local client = connect { endpoints = endpoint.limited, ttl = TTL }
    local lock = assert(client:lock "a")
    local key = prefix .. "data"
    local message = assert_fails("invalid", lock:put(key, ("x"):rep(2 * LIMIT)))
    assert.matches("a proxy or web server has answered in place of etcd, HTTP status: 413; "
      .. "raise the proxy's limit of a request body", message, 1, true)
    assert.is_true(lock:put(key, "small"))
    assert.equal("small", etcd:get(key))
  end)

  -- Regression 281. After the limit had ended the watch stream, the client created all watches on
  -- one stream again and again. Waiters got their locks by a read, after 10 s or a TTL.
  it("refuses a stream with too many watches, and yet each waiter gets its lock", function()
    local client = connect { endpoints = endpoint.limited, ttl = TTL }
    local locks = {}
    for i, pending in ipairs(lock_all(other)) do locks[i] = clients.granted(pending) end
    local waiters = lock_all(client)
    etcd:await_keys(prefix, 2 * N, 10)
    for i = N, 1, -1 do -- one by one: the watches of the others stay
      assert.is_true(locks[i]:unlock())
      clients.keep(clients.granted(waiters[i]))
    end
  end)

  for status, code in pairs { [404] = "protocol", [403] = "denied", [401] = "unauthenticated" } do
    it(("makes calls fail with %q if it answers with %d, which the message tells"):format(
      code, status), function()
      assert.equal(200, nginx:get("/status?it=" .. status).status)
      local client = connect { endpoints = endpoint.refusing, timeout = 20 }
      local message = assert_fails(code, client:lock "a")
      assert.matches("a proxy or web server has answered in place of etcd, HTTP status: " .. status,
        message, 1, true)
      -- Regression 332. With 403, ping took the proxy's answer for one of etcd.
      assert_fails(code, client:ping())
      local out = command.run { "--endpoints", endpoint.refusing, "doctor" }
      assert.matches("-> correct the proxy, or give the address of etcd itself", out, 1, true)
    end)
  end
end)

-- Regression 283. A proxy that has begun to answer when its limit is reached can only reset the
-- stream. Then the client created all watches on one stream again and again.
describe("a proxy that resets two watch streams", function()
  local N_WATCHES = 4

  scripted_client { ttl = TTL }

  after_each(clear_etcd)

  it("then gets three streams for four watches, and each waiter gets its lock", function()
    local locks, waiters = {}, {}
    for i = 1, N_WATCHES do
      locks[i] = assert(other:lock("a" .. i))
      waiters[i] = assert(client:lock_async("a" .. i))
    end
    wait.eventually(function() return client:stats().watches == N_WATCHES end, 5, "the watches")
    local before = server:calls "Watch"
    server:answer("Watch", "before", STATUS.INTERNAL, "Received RST_STREAM with error code 2", 2)
    server:interrupt("Watch", STATUS.UNAVAILABLE, "away")
    wait.eventually(function()
      local calls = server:calls "Watch" - before
      return calls == 5, calls -- two that are reset, and three with one or two watches
    end, 10, "the streams")
    for i, lock in ipairs(locks) do
      assert.is_true(lock:unlock())
      assert.is_true(clients.granted(waiters[i]):unlock())
    end
  end)
end)

-- What a proxy that is being reconfigured may answer to all calls for a while.
local ANSWERS = {
  { "the HTTP status 404", STATUS.UNIMPLEMENTED, "Received http2 header with status: 404",
    "protocol" },
  { "the HTTP status 403", STATUS.PERMISSION_DENIED, "Received http2 header with status: 403",
    "denied" },
  { "UNIMPLEMENTED", STATUS.UNIMPLEMENTED, "unknown service etcdserverpb.KV", "protocol" },
}

-- Regression 282. What a client does then was neither decided nor tested.
describe("while a proxy answers all calls with", function()
  scripted_client { ttl = wait.ttl(9) }

  after_each(clear_etcd)

  local METHODS = { "Txn", "Watch", "LeaseGrant", "LeaseKeepAlive" }

  for _, row in ipairs(ANSWERS) do
    local what, status, text, code = (table.unpack or unpack)(row)

    it(what .. ", new calls fail at once, and holds and releases go on", function()
      local hold, released = assert(client:lock "hold"), assert(client:lock "released")
      wait.eventually(function() return server:calls "Watch" >= 1 end, 5, "a watch")
      for _, method in ipairs(METHODS) do
        server:answer(method, "before", status, text)
        server:interrupt(method, status, text)
      end
      local from = wait.now()
      assert_fails(code, client:lock("new", { timeout = 20 }))
      assert_fails(code, client:try_lock "new")
      assert_fails(code, hold:put(prefix .. "data", "v"))
      assert_fails(code, released:unlock())
      assert.is_true(wait.now() - from < 1 + wait.SLACK)
      local before = server:calls "LeaseKeepAlive"
      wait.eventually(function() return server:calls "LeaseKeepAlive" > before end, 10,
        "a refused keepalive")
      server:pass()
      assert.is_true(hold:check())
      assert.is_true(assert(other:lock("released", { timeout = 20 })):unlock())
      assert.is_true(hold:unlock())
    end)
  end
end)
