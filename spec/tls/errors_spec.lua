-- Tests the messages for failures of TLS: which certificate is wrong, why, and the remedy.
-- Needs: one plain member.

local cast = suite.cast()

local etcd -- has a valid server certificate; requires a client certificate
local WRONG = {
  alone = cast.server_alone, expired = cast.server_expired, future = cast.server_future,
  elsewhere = cast.server_elsewhere,
  client = cast.server_as_client, -- etcd starts with it, because its own gateway is a client
}
-- By the name in WRONG: an etcd with that certificate, which requires no client certificate.
local wrong = {}

client_options(function() return tls.options(etcd, prefix) end)

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

-- What is wrong, the code, the pattern of the message, the name of the server in WRONG (nil: etcd),
-- and the options that differ.
local CASES = {
  { "a server certificate signed by a CA that is not in cacert", "unavailable",
    "signed by a CA that is not in cacert.*test CA", nil, { cacert = cast.other_ca.cert } },
  { "a server certificate signed by a CA with the name, but not the key, of a trusted CA",
    "unavailable", "signed by a CA that is not in cacert", nil,
    { cacert = cast.namesake_ca.cert } },
  { "a server certificate signed by a CA unknown to the system", "unavailable",
    "not in the system's CA file.*set cacert", nil, { cacert = NONE } },
  { "a self-signed server certificate", "unavailable", "self%-signed, and not in cacert",
    "alone" },
  { "a server certificate that has expired", "unavailable",
    "the server's certificate expired on .*; renew the certificate", "expired" },
  { "a server certificate that is not yet valid", "unavailable",
    "the server's certificate .*not valid before.*clocks", "future" },
  { "a server certificate for another host name", "unavailable",
    "is for .*etcd.example.* not for 127.0.0.1; set server_name", "elsewhere" },
  { "a server certificate for another server_name", "unavailable",
    "not for server_name elsewhere.example", nil, { server_name = "elsewhere.example" } },
  { "a server certificate that is not made for a server", "unavailable",
    "not made for a server", "client" },

  { "no client certificate", "unauthenticated",
    "requires a client certificate; set cert and key", nil, { cert = NONE, key = NONE } },
  { "a client certificate signed by a CA that etcd does not trust", "unauthenticated",
    "rejects the client certificate in cert.*trusted%-ca", nil,
    { cert = cast.client_other.cert, key = cast.client_other.key } },
  { "a client certificate that is not made for a client", "unauthenticated",
    "not made for a client", nil,
    { cert = cast.client_as_server.cert, key = cast.client_as_server.key } },
}

for _, case in ipairs(CASES) do
  local what, code, pattern, server, changes = (table.unpack or unpack)(case, 1, 5)

  it("the message for " .. what .. " has the cause and the remedy", function()
    assert_refused(code, pattern, changes or { endpoints = wrong[server]:endpoint() })
  end)
end

describe("TLS on one side only", function()
  it('fails with "protocol" if the server does not speak TLS', function()
    assert_refused("protocol", "does not speak TLS; to connect without TLS, write http://",
      { endpoints = "https://127.0.0.1:" .. tls.port_of(suite.etcd()) })
    assert_refused("protocol", "does not speak TLS",
      { endpoints = "127.0.0.1:" .. tls.port_of(suite.etcd()) })
  end)

  it('fails with "protocol" if the option server_name alone selects TLS', function()
    assert_refused("protocol", "does not speak TLS", {
      endpoints = "127.0.0.1:" .. tls.port_of(suite.etcd()), server_name = "etcd.example",
      cacert = NONE, cert = NONE, key = NONE,
    })
  end)

  it('fails with "protocol" and a hint at https:// if the client does not use TLS', function()
    assert_refused("protocol", "requires TLS; write https://",
      { endpoints = "http://127.0.0.1:" .. tls.port_of(etcd) })
    assert_refused("protocol", "requires TLS; write https://",
      { endpoints = "127.0.0.1:" .. tls.port_of(etcd), cacert = NONE, cert = NONE, key = NONE })
  end)
end)

describe("a refused server certificate", function()
  it("is reported by each call with the same reason, with few requests", function()
    tls.assert_told_by_each(connect { cacert = cast.other_ca.cert }, "unavailable",
      "signed by a CA")
  end)
end)
