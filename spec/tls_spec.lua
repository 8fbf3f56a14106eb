-- TLS: to whom a client talks, who it is, and what it says when that fails.

local Certs = require "spec.support.certs"
local Etcd = require "spec.support.etcd"
local etcdlock = require "etcdlock"
local proc = require "spec.support.proc"
local suite = require "spec.support.suite"
local uv = require "luv"
local wait = require "spec.support.wait"

local prefix = suite.prefix()

-- Much less than the timeout that is given: the answer is known, not awaited.
local TIMEOUT, SOON = 5, 2.5

local certs = Certs.new()
local cast = certs:cast()
local etcd -- with the good server certificate, wants a client certificate
local client

-- How a server with |cert| ({ cert, key }) is started; etcdctl stays good.
local function served_by(cert, client_auth)
  return {
    ca = cast.ca.cert, cert = cert.cert, key = cert.key,
    client = cast.client, client_auth = client_auth,
  }
end

local function port_of(one)
  return one:endpoint():match ":(%d+)$"
end

-- The good options; |changes| replace some (false: none).
local function options(changes)
  local opts = {
    endpoints = etcd:endpoint(), prefix = prefix, timeout = TIMEOUT,
    cacert = cast.ca.cert, cert = cast.client.cert, key = cast.client.key,
  }
  for name, value in pairs(changes or {}) do opts[name] = value or nil end
  return opts
end

local function connect(changes)
  client = assert(etcdlock.connect(options(changes)))
  return client
end

local function assert_works(changes)
  connect(changes)
  local lock = assert(client:lock "a")
  assert.is_true(lock:check())
  assert(lock:unlock())
  client:close()
end

-- No part of a key may be in |message|.
local function assert_keeps_secrets(message)
  for _, file in ipairs { cast.client.key, cast.client_mismatch.key, cast.client_encrypted.key } do
    for line in Certs.read(file):gmatch "[^\n]+" do
      assert.is_nil(message:find(line, 1, true), message)
    end
  end
end

-- A lock can't be had with |changes|: |code| and |pattern| say why, soon.
local function assert_refused(code, pattern, changes)
  connect(changes)
  local from = wait.now()
  local lock, message, got = client:lock "a"
  local took = wait.now() - from
  assert.is_nil(lock)
  assert.equal(code, got, message)
  assert.matches(pattern, message)
  assert.is_true(took < SOON, ("%s, after %.1f s"):format(message, took))
  assert_keeps_secrets(message)
  assert_keeps_secrets(tostring(client))
  client:close()
  return message
end

-- connect itself refuses |changes|.
local function assert_invalid(pattern, changes)
  local got, message, code = etcdlock.connect(options(changes))
  if got then got:close() end
  assert.is_nil(got)
  assert.equal("invalid", code)
  assert.matches(pattern, message)
  assert_keeps_secrets(message)
end

-- Runs |run| with an etcd that presents |cert|.
local function with_server(cert, run, client_auth)
  local other = Etcd.start { tls = served_by(cert, client_auth) }
  run(other)
  other:stop()
end

setup(function() etcd = Etcd.start { tls = served_by(cast.server) } end)

teardown(function()
  etcd:stop()
  certs:remove()
end)

after_each(function()
  if client then client:close() end
end)

describe("a client with TLS", function()
  it("locks with the certificates of files", function()
    assert_works()
  end)

  it("locks with the certificates of texts", function()
    assert_works {
      cacert = false, cert = false, key = false,
      cacert_pem = Certs.read(cast.ca.cert),
      cert_pem = Certs.read(cast.client.cert),
      key_pem = Certs.read(cast.client.key),
    }
  end)

  it("takes one from a file and another from a text", function()
    assert_works { key = false, key_pem = Certs.read(cast.client.key) }
  end)

  it("finds the server by address and by name, with https:// or without", function()
    local port = port_of(etcd)
    for _, host in ipairs { "127.0.0.1", "localhost" } do
      assert_works { endpoints = "https://" .. host .. ":" .. port }
      assert_works { endpoints = host .. ":" .. port }
    end
  end)

  it("finds the server by its IPv6 address", function()
    local other = Etcd.start { tls = served_by(cast.server), host = "::1" }
    assert_works { endpoints = "https://[::1]:" .. port_of(other) }
    assert_works { endpoints = "[::1]:" .. port_of(other) }
    other:stop()
  end)

  it("can expect another name than the address", function()
    with_server(cast.server_elsewhere, function(other)
      assert_works { endpoints = other:endpoint(), server_name = "etcd.example" }
      assert_works { endpoints = "127.0.0.1:" .. port_of(other), server_name = "127.9.9.9" }
    end)
  end)

  it("needs no certificate of its own if etcd wants none", function()
    with_server(cast.server, function(other)
      assert_works { endpoints = other:endpoint(), cert = false, key = false }
    end, false)
  end)

  it("takes keys of every usual kind, and chains", function()
    local between = certs:ca { name = "between", issuer = cast.ca }
    local leaf = certs:issue(between, "client")
    assert_works { cert = certs:bundle(leaf.cert, between.cert), key = leaf.key }
    for _, algorithm in ipairs { "rsa", "p384" } do
      local own = certs:issue(cast.ca, "client", { algorithm = algorithm })
      assert_works { cert = own.cert, key = own.key }
    end
  end)

  it("trusts every CA of a bundle, also beside an expired one", function()
    assert_works { cacert = certs:bundle(cast.expired_ca.cert, cast.other_ca.cert, cast.ca.cert) }
  end)

  it("uses a unix socket, with TLS and without", function()
    local secured = Etcd.start { tls = served_by(cast.server), unix = true }
    for _, scheme in ipairs { "unixs://", "unixs:" } do
      assert_works { endpoints = scheme .. secured:socket(), server_name = "localhost" }
    end
    assert_works { endpoints = "unixs:" .. secured:socket() }
    secured:stop()
    local plain = Etcd.start { unix = true }
    for _, scheme in ipairs { "unix://", "unix:" } do
      assert_works { endpoints = scheme .. plain:socket() }
    end
    plain:stop()
  end)

  it("holds and waits", function()
    local holder = connect { ttl = 2 }
    local waiter = assert(etcdlock.connect(options { ttl = 2 }))
    local lock = assert(holder:lock "a")
    local _, _, code = waiter:lock("a", { timeout = 5 })
    assert.equal("timeout", code)
    assert.is_true(lock:check())
    lock:unlock()
    assert(waiter:lock "a"):unlock()
    waiter:close()
  end)
end)

describe("wrong files are told apart at once:", function()
  it("one that isn't there, a directory, an empty one", function()
    assert_invalid('cacert "/nowhere/ca.pem" can\'t be read: No such file', {
      cacert = "/nowhere/ca.pem",
    })
    assert_invalid('cert "/" ', { cert = "/" })
    assert_invalid("cacert .*holds no certificate", { cacert = cast.empty })
  end)

  it("rubbish, and PEM that is damaged or cut off", function()
    assert_invalid("cacert .*rubbish.pem\" holds no certificate", { cacert = cast.rubbish })
    assert_invalid("cert .*holds no certificate", { cert = cast.rubbish })
    assert_invalid("key .*holds no private key", { key = cast.rubbish })
    assert_invalid("cert .*damaged certificate", { cert = cast.damaged })
    assert_invalid("cacert .*damaged certificate", { cacert = certs:half(cast.ca.cert) })
    assert_invalid("key .*damaged private key", { key = certs:damaged(cast.client.key) })
    assert_invalid("key .*damaged private key", { key = certs:half(cast.client.key) })
  end)

  it("a key for a certificate and the reverse", function()
    assert_invalid("cert .*private key, but no certificate", { cert = cast.client.key })
    assert_invalid("key .*certificate, but no private key", { key = cast.client.cert })
    assert_invalid("cacert .*private key, but no certificate", { cacert = cast.ca.key })
  end)

  it("a key that wants a password", function()
    assert_invalid("key .*is encrypted", { key = cast.client_encrypted.key })
  end)

  it("a key that doesn't fit the certificate", function()
    assert_invalid("key .*does not fit the certificate in cert", {
      key = cast.client_mismatch.key,
    })
    assert_invalid("key_pem does not fit the certificate in cert", {
      key = false, key_pem = Certs.read(cast.client_mismatch.key),
    })
  end)

  it("one without the other", function()
    assert_invalid("cert .*without a key", { key = false })
    assert_invalid("key .*without a cert", { cert = false })
  end)

  it("a certificate that isn't in force", function()
    assert_invalid("client certificate .*expired", {
      cert = cast.client_expired.cert, key = cast.client_expired.key,
    })
    assert_invalid("client certificate .*not valid before", {
      cert = cast.client_future.cert, key = cast.client_future.key,
    })
    assert_invalid("cacert .*CA certificate .*expired", { cacert = cast.expired_ca.cert })
  end)

  it("a text for a file name and the reverse", function()
    assert_invalid("cacert .*must be a file name", { cacert = Certs.read(cast.ca.cert) })
    assert_invalid("key .*must be a file name", { key = Certs.read(cast.client.key) })
    assert_invalid("cacert_pem holds no certificate", {
      cacert = false, cacert_pem = cast.ca.cert,
    })
    assert_invalid("key_pem holds no private key", { key = false, key_pem = cast.client.key })
  end)

  it("both a file and a text", function()
    assert_invalid("only one of cacert and cacert_pem", {
      cacert_pem = Certs.read(cast.ca.cert),
    })
    assert_invalid("only one of key and key_pem", { key_pem = Certs.read(cast.client.key) })
  end)
end)

describe("a wrong server is told apart:", function()
  -- What |cert| of the server leads to.
  local function assert_server_refused(cert, pattern, changes)
    with_server(cert, function(other)
      local all = { endpoints = other:endpoint() }
      for name, value in pairs(changes or {}) do all[name] = value end
      assert_refused("unavailable", pattern, all)
    end, false)
  end

  it("signed by a CA that we don't know", function()
    assert_refused("unavailable", "signed by a CA that is not in cacert.*test CA", {
      cacert = cast.other_ca.cert,
    })
  end)

  it("signed by a CA of the same name", function()
    assert_refused("unavailable", "signed by a CA that is not in cacert", {
      cacert = cast.namesake_ca.cert,
    })
  end)

  it("signed by a CA that this system doesn't know", function()
    assert_refused("unavailable", "not in the system's CA file.*set cacert", {
      cacert = false,
    })
  end)

  it("signed by itself", function()
    assert_server_refused(cast.server_alone, "self%-signed, and not in cacert")
  end)

  it("expired", function()
    assert_server_refused(cast.server_expired, "its certificate .*expired.*renewed")
  end)

  it("not valid yet", function()
    assert_server_refused(cast.server_future, "its certificate .*not valid before.*clocks")
  end)

  it("of another name", function()
    assert_server_refused(cast.server_elsewhere,
      "is for .*etcd.example.* not for 127.0.0.1; set server_name")
    assert_refused("unavailable", "not for server_name elsewhere.example", {
      server_name = "elsewhere.example",
    })
  end)

  it("not made for a server", function()
    -- etcd's own gateway speaks to it as a client; it is not made for that.
    local both = certs:issue(cast.ca, "client", { name = "not a server" })
    assert_server_refused(both, "not made for a server")
  end)
end)

describe("a client certificate that etcd refuses is told apart:", function()
  it("missing", function()
    assert_refused("unauthenticated", "wants a client certificate: set cert and key", {
      cert = false, key = false,
    })
  end)

  it("signed by another CA", function()
    assert_refused("unauthenticated", "refuses the client certificate in cert.*trusted%-ca", {
      cert = cast.client_other.cert, key = cast.client_other.key,
    })
  end)

  it("not made for a client", function()
    assert_refused("unauthenticated", "not made for a client", {
      cert = cast.client_as_server.cert, key = cast.client_as_server.key,
    })
  end)
end)

describe("TLS on one side only is told apart:", function()
  it("spoken to a port without it", function()
    assert_refused("protocol", "doesn't speak TLS; write http://", {
      endpoints = "https://127.0.0.1:" .. port_of(suite.etcd()),
    })
    assert_refused("protocol", "doesn't speak TLS", {
      endpoints = "127.0.0.1:" .. port_of(suite.etcd()),
    })
  end)

  it("not spoken to a port that wants it", function()
    assert_refused("protocol", "wants TLS; write https://", {
      endpoints = "http://127.0.0.1:" .. port_of(etcd),
    })
    assert_refused("protocol", "wants TLS; write https://", {
      endpoints = "127.0.0.1:" .. port_of(etcd), cacert = false, cert = false, key = false,
    })
  end)

  it("http:// in an endpoint beats the TLS options", function()
    assert_works { endpoints = suite.endpoint() }
  end)
end)

describe("a refused try", function()
  it("is answered with the same reason by all calls, and costs few requests", function()
    connect { cacert = cast.other_ca.cert }
    for _, call in ipairs {
      function() return client:lock "a" end,
      function() return client:try_lock "a" end,
      function() return client:ping() end,
      function() return client:queue "a" end,
    } do
      local from = wait.now()
      local ok, message, code = call()
      assert.is_nil(ok)
      assert.equal("unavailable", code, message)
      assert.matches("signed by a CA", message)
      assert.is_true(wait.now() - from < SOON)
    end
    assert.is_true(client:stats().rpcs < 20, client:stats().rpcs)
  end)
end)

-- ---- certificates that change ----

local function copy(from, to)
  assert(uv.fs_copyfile(from, to .. ".new"))
  assert(uv.fs_rename(to .. ".new", to))
end

describe("files that are replaced", function()
  local files, own

  -- Puts these where the client looks for them.
  local function install(ca, cert)
    copy(ca.cert, files.cacert)
    copy(cert.cert, files.cert)
    copy(cert.key, files.key)
  end

  before_each(function()
    own = Etcd.start { tls = served_by(cast.server) }
    files = {
      cacert = certs:path "live-ca.pem", cert = certs:path "live.pem",
      key = certs:path "live-key.pem", endpoints = own:endpoint(),
    }
    install(cast.ca, cast.client)
  end)

  after_each(function()
    client:close()
    own:stop()
  end)

  -- Everything by the other CA from now on.
  local function switch_etcd()
    local new = certs:issue(cast.other_ca, "server")
    own:set_tls {
      ca = cast.other_ca.cert, cert = new.cert, key = new.key, client = cast.client_other,
    }
    own:restart()
  end

  it("are read again before the lock is lost, when etcd comes back with another CA", function()
    connect { cacert = files.cacert, cert = files.cert, key = files.key,
      endpoints = files.endpoints, ttl = 30 }
    local lock = assert(client:lock "a")
    install(cast.other_ca, cast.client_other)
    switch_etcd()
    assert(client:lock("b", { timeout = 10 }))
    assert.is_true(lock:check())
    assert.is_true(lock:held())
    assert(lock:unlock())
    assert.equal(0, client:stats().lost)
  end)

  it("are read again when they come after the change, also one by one", function()
    connect { cacert = files.cacert, cert = files.cert, key = files.key,
      endpoints = files.endpoints, ttl = 30 }
    local lock = assert(client:lock "a")
    switch_etcd()
    local _, message, code = client:lock("b", { timeout = 5 })
    assert.equal("unavailable", code, message)
    assert.matches("signed by a CA that is not in cacert", message)
    copy(cast.other_ca.cert, files.cacert)
    copy(cast.client_other.key, files.key) -- doesn't fit the certificate yet
    _, message, code = client:lock("b", { timeout = 1 })
    assert.is_string(code, message)
    copy(cast.client_other.cert, files.cert)
    wait.eventually(function()
      local b, why = client:lock("b", { timeout = 1 })
      return b, why
    end, 10, "a lock with the new certificates")
    assert.is_true(lock:check())
    assert(lock:unlock())
  end)
end)

-- ---- the environment ----

-- Runs |source| with these variables in its environment, none of etcdctl's
-- otherwise; returns what it printed.
local function run_with(variables, source, ...)
  local env = {
    ETCDCTL_ENDPOINTS = false, ETCDCTL_CACERT = false, ETCDCTL_CERT = false,
    ETCDCTL_KEY = false, ETCDCTL_USER = false, ETCDCTL_PASSWORD = false,
  }
  for name, value in pairs(variables) do env[name] = value end
  local out, code, err = proc.run_lua("spec/support/child.lua", { source, ... }, { env = env })
  assert.equal(0, code, err)
  assert_keeps_secrets(out)
  return out
end

-- Connects with its arguments (name, value, ...) as options and locks.
local LOCK = [[
  local opts = { timeout = 5, prefix = "tls_spec/" }
  for i = 1, select("#", ...), 2 do
    local name, value = select(i, ...)
    if value == "false" then value = false end
    opts[name] = value
  end
  local client, message, code = require("etcdlock").connect(opts)
  if not client then return print(code .. ": " .. message) end
  local lock
  lock, message, code = client:lock "a"
  print(lock and "locked" or code .. ": " .. message)
  if lock then lock:unlock() end
  client:close()
]]

describe("etcdctl's variables for TLS", function()
  local good

  before_each(function()
    good = {
      ETCDCTL_ENDPOINTS = etcd:endpoint(), ETCDCTL_CACERT = cast.ca.cert,
      ETCDCTL_CERT = cast.client.cert, ETCDCTL_KEY = cast.client.key,
    }
  end)

  it("are enough", function()
    assert.equal("locked\n", run_with(good, LOCK))
    good.ETCDCTL_ENDPOINTS = "127.0.0.1:" .. port_of(etcd)
    assert.equal("locked\n", run_with(good, LOCK))
  end)

  it("give way to options", function()
    good.ETCDCTL_CACERT = cast.other_ca.cert
    assert.matches("^unavailable: .*signed by a CA", run_with(good, LOCK))
    assert.equal("locked\n", run_with(good, LOCK, "cacert", cast.ca.cert))
    assert.equal("locked\n", run_with(good, LOCK, "cacert_pem", Certs.read(cast.ca.cert)))
    good.ETCDCTL_KEY, good.ETCDCTL_CERT = "/nowhere/key", "/nowhere/cert"
    assert.equal("locked\n", run_with(good, LOCK, "cacert", cast.ca.cert,
      "cert", cast.client.cert, "key", cast.client.key))
    good.ETCDCTL_ENDPOINTS = "127.0.0.1:1"
    assert.equal("locked\n", run_with(good, LOCK, "cacert", cast.ca.cert,
      "cert", cast.client.cert, "key", cast.client.key, "endpoints", etcd:endpoint()))
  end)

  it("aren't looked at with env = false", function()
    local out = run_with(good, LOCK, "env", "false", "endpoints", etcd:endpoint(),
      "cacert", cast.ca.cert)
    assert.matches("^unauthenticated: .*wants a client certificate", out)
  end)

  it("are named when they are wrong", function()
    for name, value in pairs {
      ETCDCTL_CACERT = cast.rubbish, ETCDCTL_CERT = "/nowhere/cert.pem",
      ETCDCTL_KEY = cast.client_mismatch.key, ETCDCTL_ENDPOINTS = "https://nowhere",
    } do
      local all = {}
      for each, right in pairs(good) do all[each] = right end
      all[name] = value
      assert.matches("^invalid: .*" .. name, run_with(all, LOCK))
    end
  end)

  it("are refused where they would switch off what is checked", function()
    good.ETCDCTL_INSECURE_SKIP_TLS_VERIFY = "true"
    assert.matches("^invalid: .*ETCDCTL_INSECURE_SKIP_TLS_VERIFY", run_with(good, LOCK))
    good.ETCDCTL_INSECURE_SKIP_TLS_VERIFY = "false"
    assert.equal("locked\n", run_with(good, LOCK))
    assert.equal("locked\n", run_with({
      ETCDCTL_INSECURE_SKIP_TLS_VERIFY = "true",
    }, LOCK, "env", "false", "endpoints", suite.endpoint()))
  end)
end)
