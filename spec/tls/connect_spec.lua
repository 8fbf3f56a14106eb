-- Tests with which certificates, addresses and environment variables a client reaches etcd by TLS.
-- Needs: one plain member.

local certs, cast = suite.certs(), suite.cast()
local port_of = tls.port_of

local etcd -- has a valid server certificate; requires a client certificate
local elsewhere -- has a certificate for another host name
local anonymous -- requires no client certificate
local plain -- has no TLS

local function options(changes) return tls.options(etcd, prefix, changes) end

client_options(options)

local function assert_works(changes) tls.assert_works(connect(changes)) end

setup(function()
  local all = Etcd.start_all {
    { tls = tls.served_by(cast.server), unix = true },
    { tls = tls.served_by(cast.server_elsewhere) },
    { tls = tls.served_by(cast.server, false) },
    { unix = true },
  }
  etcd, elsewhere, anonymous, plain = all[1], all[2], all[3], all[4]
end)

describe("a client with TLS", function()
  for from, changes in pairs {
    files = {},
    ["PEM texts"] = {
      cacert = NONE, cert = NONE, key = NONE,
      cacert_pem = Certs.read(cast.ca.cert), cert_pem = Certs.read(cast.client.cert),
      key_pem = Certs.read(cast.client.key),
    },
    ["files, and the key from a text"] = { key = NONE, key_pem = Certs.read(cast.client.key) },
  } do
    it("locks with certificates and a key from " .. from, function() assert_works(changes) end)
  end

  it("reaches the server by IP address and by host name, with or without https://", function()
    for _, host in ipairs { "127.0.0.1", "localhost" } do
      assert_works { endpoints = "https://" .. host .. ":" .. port_of(etcd) }
      assert_works { endpoints = host .. ":" .. port_of(etcd) }
    end
  end)

  it("reaches the server by its IPv6 address", function()
    if not Etcd.can_listen "::1" then return pending "this host has no IPv6" end
    local other = Etcd.start { tls = tls.served_by(cast.server), host = "::1" }
    assert_works { endpoints = "https://[::1]:" .. port_of(other) }
    assert_works { endpoints = "[::1]:" .. port_of(other) }
  end)

  it("accepts a certificate for server_name instead of the address", function()
    assert_works { endpoints = elsewhere:endpoint(), server_name = "etcd.example" }
    assert_works { endpoints = "127.0.0.1:" .. port_of(elsewhere), server_name = "127.9.9.9" }
  end)

  it("needs no client certificate if etcd requires none", function()
    assert_works { endpoints = anonymous:endpoint(), cert = NONE, key = NONE }
  end)

  it("accepts RSA and P-384 keys and certificate chains", function()
    local between = certs:ca { name = "between", issuer = cast.ca }
    local leaf = certs:issue(between, "client")
    assert_works { cert = certs:bundle(leaf.cert, between.cert), key = leaf.key }
    for _, algorithm in ipairs { "rsa", "p384" } do
      local own = certs:issue(cast.ca, "client", { algorithm = algorithm })
      assert_works { cert = own.cert, key = own.key }
    end
  end)

  it("trusts a CA of a bundle that also contains an expired CA", function()
    assert_works { cacert = certs:bundle(cast.expired_ca.cert, cast.other_ca.cert, cast.ca.cert) }
  end)

  it("uses a unix socket, with and without TLS", function()
    for _, scheme in ipairs { "unixs://", "unixs:" } do
      assert_works { endpoints = scheme .. etcd:socket(), server_name = "localhost" }
    end
    assert_works { endpoints = "unixs:" .. etcd:socket() }
    for _, scheme in ipairs { "unix://", "unix:" } do
      assert_works { endpoints = scheme .. plain:socket() }
    end
  end)

  -- Regression 217. Unix sockets had no diagnosis, so messages had gRPC's words: with gRPC 1.83 in
  -- the language of the program's locale.
  it("is told the scheme to write if only one side of a unix socket uses TLS", function()
    local function assert_told(endpoint, message)
      tls.assert_refused(connect { endpoints = endpoint }, "protocol", message)
    end
    assert_told("unixs:" .. plain:socket(), "does not speak TLS; .*, write unix:/")
    assert_told("unix:" .. etcd:socket(), "requires TLS; write unixs:/")
  end)

  it("uses no TLS for http://, even with certificate options", function()
    assert_works { endpoints = plain:endpoint() }
  end)

  it("holds a lock, renews its lease and waits for another client", function()
    local TTL = 5
    local holder, waiter = connect { ttl = TTL }, connect { ttl = TTL, elsewhere = true }
    local lock = assert(holder:lock "a")
    local from = wait.now()
    assert_fails("timeout", clients.answered(waiter.lock, waiter, "a", { timeout = 1.2 }))
    assert.is_true(lock:check())
    wait.eventually(function() return wait.now() + lock:remaining() > from + TTL end, 5, "renewed")
    lock:unlock()
    assert(waiter:lock "a"):unlock()
  end)
end)

describe("etcdctl's TLS variables", function()
  local good

  -- Takes a lock with the environment |env| and options |opts|; returns what the program prints.
  local function lock_with(env, opts)
    local out = variables.lock(env, clients.with({ prefix = prefix, timeout = 5 }, opts))
    tls.assert_keeps_secrets(out)
    return out
  end

  -- Like lock_with, but with the option env = false.
  local function lock_without(env, opts)
    return lock_with(env, clients.with(opts, { env = false }))
  end

  before_each(function()
    good = {
      ETCDCTL_ENDPOINTS = etcd:endpoint(), ETCDCTL_CACERT = cast.ca.cert,
      ETCDCTL_CERT = cast.client.cert, ETCDCTL_KEY = cast.client.key,
    }
  end)

  it("are sufficient to connect", function()
    assert.equal("locked\n", lock_with(good))
    good.ETCDCTL_ENDPOINTS = "127.0.0.1:" .. port_of(etcd)
    assert.equal("locked\n", lock_with(good))
  end)

  it("select TLS by ETCDCTL_INSECURE_TRANSPORT if the endpoint has no scheme", function()
    local env = { ETCDCTL_ENDPOINTS = "127.0.0.1:" .. port_of(plain) }
    assert.equal("locked\n", lock_with(env))
    env.ETCDCTL_INSECURE_TRANSPORT = "true"
    assert.equal("locked\n", lock_with(env))
    env.ETCDCTL_INSECURE_TRANSPORT = "perhaps"
    assert.matches('^invalid: .*ETCDCTL_INSECURE_TRANSPORT = "perhaps", wanted "true" or "false"',
      (lock_with(env)))
    for _, word in ipairs { "false", "0", "F" } do -- etcdctl accepts these spellings
      env.ETCDCTL_INSECURE_TRANSPORT = word
      assert.matches("^protocol: .*does not speak TLS", (lock_with(env)))
    end
    assert.equal("locked\n", lock_with(env, { insecure_transport = true }))
    assert.matches("^protocol: .*does not speak TLS", lock_without({}, {
      endpoints = env.ETCDCTL_ENDPOINTS, insecure_transport = false,
    }))
  end)

  it("are overridden by options", function()
    good.ETCDCTL_CACERT = cast.other_ca.cert
    assert.matches("^unavailable: .*signed by a CA", lock_with(good))
    assert.equal("locked\n", lock_with(good, { cacert = cast.ca.cert }))
    assert.equal("locked\n", lock_with(good, { cacert_pem = Certs.read(cast.ca.cert) }))
    good.ETCDCTL_KEY, good.ETCDCTL_CERT = "/nowhere/key", "/nowhere/cert"
    assert.equal("locked\n", lock_with(good, {
      cacert = cast.ca.cert, cert = cast.client.cert, key = cast.client.key,
    }))
    good.ETCDCTL_ENDPOINTS = "127.0.0.1:1"
    assert.equal("locked\n", lock_with(good, options()))
  end)

  it("are ignored with env = false", function()
    assert.matches("^unauthenticated: .*requires a client certificate", lock_without(good, {
      endpoints = etcd:endpoint(), cacert = cast.ca.cert,
    }))
  end)

  it("are named in the message if they are wrong", function()
    for name, value in pairs {
      ETCDCTL_CACERT = cast.rubbish, ETCDCTL_CERT = "/nowhere/cert.pem",
      ETCDCTL_KEY = cast.client_mismatch.key, ETCDCTL_ENDPOINTS = "https://nowhere",
    } do
      assert.matches("^invalid: .*" .. name, lock_with(clients.with(good, { [name] = value })))
    end
  end)

  it("are refused if they disable the verification of the server certificate", function()
    good.ETCDCTL_INSECURE_SKIP_TLS_VERIFY = "true"
    assert.matches("^invalid: .*ETCDCTL_INSECURE_SKIP_TLS_VERIFY", lock_with(good))
    for _, word in ipairs { "false", "0" } do
      good.ETCDCTL_INSECURE_SKIP_TLS_VERIFY = word
      assert.equal("locked\n", lock_with(good))
    end
    assert.equal("locked\n", lock_without({ ETCDCTL_INSECURE_SKIP_TLS_VERIFY = "true" }, {
      endpoints = plain:endpoint(),
    }))
  end)
end)
