-- What a client says when TLS fails: whose certificate is wrong, how, and what
-- can be done.

local Etcd = require "spec.support.servers.etcd"
local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local tls = require "spec.support.servers.tls"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()
local certs, cast = suite.certs(), suite.cast()

local etcd -- with the good server certificate, wants a client certificate
local WRONG = {
  alone = cast.server_alone, expired = cast.server_expired, future = cast.server_future,
  elsewhere = cast.server_elsewhere,
  -- etcd's own gateway speaks to it as a client; it is not made for a server.
  client = certs:issue(cast.ca, "client", { name = "not a server" }),
}
local wrong = {} -- etcds with these, which want no client certificate

local connect = clients.connector(function() return tls.options(etcd, prefix) end)

local function assert_refused(code, pattern, changes)
  tls.assert_refused(connect(changes), code, pattern)
end

setup(function()
  local names, list = {}, {}
  for name, cert in pairs(WRONG) do
    names[#names + 1] = name
    list[#list + 1] = { tls = tls.served_by(cert, false) }
  end
  list[#list + 1] = { tls = tls.served_by(cast.server) }
  local all = Etcd.start_all(list)
  for i, name in ipairs(names) do wrong[name] = all[i] end
  etcd = all[#list]
end)

teardown(function()
  for _, one in pairs(wrong) do one:stop() end
  etcd:stop()
end)

after_each(clients.close_all)

describe("a wrong server is told apart:", function()
  local function assert_server_refused(name, pattern)
    assert_refused("unavailable", pattern, { endpoints = wrong[name]:endpoint() })
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
    assert_server_refused("alone", "self%-signed, and not in cacert")
  end)

  it("expired", function()
    assert_server_refused("expired", "its certificate .*expired.*renewed")
  end)

  it("not valid yet", function()
    assert_server_refused("future", "its certificate .*not valid before.*clocks")
  end)

  it("of another name", function()
    assert_server_refused("elsewhere",
      "is for .*etcd.example.* not for 127.0.0.1; set server_name")
    assert_refused("unavailable", "not for server_name elsewhere.example", {
      server_name = "elsewhere.example",
    })
  end)

  it("not made for a server", function()
    assert_server_refused("client", "not made for a server")
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
      endpoints = "https://127.0.0.1:" .. tls.port_of(suite.etcd()),
    })
    assert_refused("protocol", "doesn't speak TLS", {
      endpoints = "127.0.0.1:" .. tls.port_of(suite.etcd()),
    })
  end)

  it("spoken because there is a server_name alone", function()
    assert_refused("protocol", "doesn't speak TLS", {
      endpoints = "127.0.0.1:" .. tls.port_of(suite.etcd()), server_name = "etcd.example",
      cacert = false, cert = false, key = false,
    })
  end)

  it("not spoken to a port that wants it", function()
    assert_refused("protocol", "wants TLS; write https://", {
      endpoints = "http://127.0.0.1:" .. tls.port_of(etcd),
    })
    assert_refused("protocol", "wants TLS; write https://", {
      endpoints = "127.0.0.1:" .. tls.port_of(etcd), cacert = false, cert = false, key = false,
    })
  end)
end)

describe("a refused try", function()
  it("is answered with the same reason by all calls, and costs few requests", function()
    local client = connect { cacert = cast.other_ca.cert }
    for _, call in ipairs {
      function() return client:lock "a" end,
      function() return client:try_lock "a" end,
      function() return client:ping() end,
      function() return client:queue "a" end,
    } do
      tls.assert_told(client, "unavailable", "signed by a CA", wait.now(), call())
    end
    assert.is_true(client:stats().rpcs < 20, client:stats().rpcs)
  end)
end)
