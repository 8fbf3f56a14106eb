-- Tests the endpoints that connect accepts, a client's lease, and its close.

local SHOW = [[
  local client, message, code = require("etcdlock").connect()
  print(client and tostring(client) or code .. ": " .. message)
  if client then client:close() end
]]

describe("connect", function()
  it("accepts an endpoint with or without a scheme, alone or in a list", function()
    local address = etcd:endpoint()
    local plain = address:match "^https?://(.*)"
    local localhost = plain:gsub("127%.0%.0%.1", "localhost")
    for _, endpoints in ipairs {
      address, plain, localhost, " " .. plain .. " ", { address }, { plain },
    } do
      local client = connect { endpoints = endpoints }
      assert.is_number(client:ping())
    end
  end)

  it("accepts an IPv6 endpoint and names it in error messages", function()
    if not Etcd.can_listen "::1" then return pending "this host has no IPv6" end
    local own = Etcd.start { host = "::1" }
    assert.matches("^https?://%[::1%]:%d+$", own:endpoint())
    local client = connect { endpoints = own:endpoint() }
    local lock = assert(client:lock "six")
    assert.is_true(lock:check())
    assert(lock:unlock())
    own:kill()
    local message = assert_fails("unavailable", client:lock("six", { timeout = 0.5 }))
    assert.matches("[::1]:" .. own.members[1].port, message, 1, true)
  end)

  it("uses ETCDCTL_ENDPOINTS if the option endpoints is not set", function()
    local out = variables.run(suite.variables(), [[
      local client = assert(require("etcdlock").connect())
      assert(client:ping())
      print(client)
      client:close()
    ]])
    assert.matches(etcd:endpoints(), out, 1, true)
  end)

  it("uses 127.0.0.1:2379 if neither endpoints nor ETCDCTL_ENDPOINTS is set", function()
    assert.matches("127.0.0.1:2379", variables.run({}, SHOW), 1, true)
    assert.matches("127.0.0.1:2379", variables.run({ ETCDCTL_ENDPOINTS = "" }, SHOW), 1, true)
  end)

  it('returns "invalid" and the name of an etcdctl variable that it does not support', function()
    for _, name in ipairs { "ETCDCTL_INSECURE_SKIP_TLS_VERIFY", "ETCDCTL_DISCOVERY_SRV" } do
      local out = variables.run({ [name] = "true" }, SHOW)
      assert.matches("^invalid: .*" .. name, out)
    end
    -- "f" is a domain name here, not the boolean false.
    assert.matches("^invalid: ", variables.run({ ETCDCTL_DISCOVERY_SRV = "f" }, SHOW))
  end)

  it("names ETCDCTL_ENDPOINTS and the value in it that is not an endpoint", function()
    assert.matches("^invalid: .*ETCDCTL_ENDPOINTS.*ftp://a:1",
      variables.run({ ETCDCTL_ENDPOINTS = "a:1,ftp://a:1" }, SHOW))
    assert.matches("^invalid: .*ETCDCTL_ENDPOINTS.*nowhere",
      variables.run({ ETCDCTL_ENDPOINTS = "nowhere" }, SHOW))
  end)

  it("ignores http_proxy, https_proxy and grpc_proxy", function()
    local env = suite.variables()
    for _, name in ipairs { "http_proxy", "https_proxy", "grpc_proxy" } do
      env[name] = "http://127.0.0.1:1"
    end
    env.no_proxy, env.no_grpc_proxy = "", ""
    assert.equal("locked\n", (variables.lock(env, { prefix = prefix, timeout = 5 })))
  end)

  it("sends no request before the first call of the client", function()
    assert.equal(0, client:stats().rpcs)
    assert.is_nil(client:lease())
    assert.same({ false, "unavailable" }, { client:alive() })
  end)
end)

describe("a client", function()
  it("gets one lease with its first lock and uses it for all its locks", function()
    local client = connect { ttl = 7 }
    local a, b = assert(client:lock "a"), assert(client:lock "b")
    assert.same({ client:lease() }, etcd:leases())
    assert.equal(client:lease(), a:lease())
    assert.equal(client:lease(), b:lease())
    assert.matches("granted with TTL%(7s", (etcd:ctl("lease", "timetolive", a:lease())))
    assert.equal(1, client:stats().grants)
  end)

  it("returns true and the remaining seconds of its lease from alive()", function()
    local client = connect { ttl = 7 }
    clients.keep(assert(client:lock "a"))
    local alive, seconds = client:alive()
    assert.is_true(alive)
    assert.is_true(seconds > 3 and seconds <= 7, seconds)
  end)

  it("with ttl = 2.5 gets a lease of at least 2.5 s, and remaining() is less", function()
    local client = connect { ttl = 2.5 }
    local lock = assert(client:lock "a")
    local granted = etcd:ctl("lease", "timetolive", lock:lease()):match "granted with TTL%((%d+)s"
    assert.is_true(lock:remaining() > 0)
    assert.is_true(lock:remaining() < tonumber(granted))
    assert.is_true(tonumber(granted) >= 2.5)
  end)

  it("shows its endpoints, and its lease or state, in tostring", function()
    assert.equal(("etcdlock.client %s (not connected yet)"):format(etcd:endpoints()),
      tostring(client))
    clients.keep(assert(client:lock "a"))
    assert.equal(("etcdlock.client %s (lease %s)"):format(etcd:endpoints(), client:lease()),
      tostring(client))
    client:close()
    assert.equal(("etcdlock.client %s (closed)"):format(etcd:endpoints()), tostring(client))
  end)

  it("puts its prefix before lock names in etcd, but not in name()", function()
    local client = connect { prefix = prefix .. "shop:" }
    local lock = assert(client:lock "stock")
    assert.equal("stock", lock:name())
    assert.equal(prefix .. "shop:stock/" .. client:lease(), lock:key())
    assert.same({ lock:key() }, etcd:keys(prefix .. "shop:"))
    local _, _, code = connect():try_lock "shop:stock"
    assert.equal("locked", code)
  end)

  it('returns "closed" from every call after close', function()
    local lock = assert(client:lock "a")
    client:close()
    local function assert_closed(...) assert_fails("closed", ...) end
    assert_closed(client:lock "a")
    assert_closed(client:lock("b", { timeout = 0 }))
    assert_closed(client:try_lock "b")
    assert_closed(client:with_lock("b", error))
    assert_closed(client:wrap("b", error)())
    assert_closed(client:queue "a")
    assert_closed(client:break_lock("a", 1))
    assert_closed(client:ping())
    assert_closed(lock:put(prefix .. "data", "v"))
    assert_closed(lock:get(prefix .. "data"))
    assert_closed(lock:wait_lost())
    assert_closed(lock:unlock())
    assert.same({ false, "closed" }, { client:alive() })
    assert.same({ false, "closed" }, { lock:held() })
    assert.is_nil(client:lease())
    assert.equal(1, client:stats().acquired)
  end)

  it("is closed at the end of its block if it is a <close> variable", function()
    if not coroutine.close then return pending "<close> came with Lua 5.4" end
    clients.assert_nothing_left(etcd, prefix, function()
      local lock, from = assert(load [[
        local etcdlock, now, endpoint, name = ...
        local client <close> = assert(etcdlock.connect { endpoints = endpoint })
        return assert(client:lock(name)), now()
      ]])(etcdlock, wait.now, etcd:endpoints(), prefix .. "a")
      assert.same({ false, "closed" }, { lock:held() })
      return from
    end)
  end)
end)
