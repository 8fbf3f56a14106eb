-- Tests that a server without a TLS version, cipher, curve or application protocol in common with
-- the client is reported as such at once, not as unreachable.
-- Needs: one plain member.

local NOTHING = "127.0.0.1:%d+: the server and the client have no TLS version, cipher and curve in "
  .. "common: TLS 1.2 or newer"

local ca = suite.cast().ca
local cert = suite.certs():issue(ca, "server", { algorithm = "rsa" })

-- Starts `openssl s_server` with the arguments |...|, which may allow insecure versions; returns
-- its endpoint.
local function start(...)
  local server = proc.talk {
    "openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", cert.cert, "-key", cert.key, ...,
  }
  return "https://127.0.0.1:" .. server:expect "^ACCEPT .*:(%d+)"
end

-- The same for a server that offers HTTP/2 in the handshake.
local function serve(...)
  return start("-alpn", "h2", ...)
end

-- The failures are reported at once, and not after this timeout.
local function connect_to(...)
  return connect { cacert = ca.cert, timeout = tls.TIMEOUT, endpoints = { ... } }
end

describe("a server that speaks only", function()
  for name, args in pairs {
    ["TLS 1.1"] = { "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0" },
    ["TLS 1.0"] = { "-tls1", "-cipher", "DEFAULT@SECLEVEL=0" },
    ["TLS 1.2 with CBC"] = { "-tls1_2", "-cipher", "AES128-SHA@SECLEVEL=0" },
  } do
    it(name .. ' makes each call fail with "protocol" at once', function()
      local client = connect_to(serve((table.unpack or unpack)(args)))
      tls.assert_told_by_each(client, "protocol", NOTHING)
    end)
  end

  for _, version in ipairs { "2", "3" } do
    it("TLS 1." .. version .. " is not reported as having no TLS version in common", function()
      local ok, message = connect_to(serve("-tls1_" .. version)):lock("a", { timeout = 1 })
      assert.is_nil(ok)
      assert.is_nil(message:find "in common", message)
    end)
  end
end)

describe("a member that speaks only TLS 1.1", function()
  it("is skipped for a member that supports a newer version", function()
    local client = connect_to(serve("-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"), suite.endpoint())
    local from = wait.now()
    assert(assert(client:lock "a"):unlock())
    assert.is_true(wait.now() - from < tls.SOON)
  end)
end)

-- Regression 278. The message said that the server does not speak HTTP/2, and `doctor` advised to
-- use another port. gRPC requires ALPN, which a proxy that terminates TLS must be told to use.
describe("a server that terminates TLS", function()
  local REMEDY = "give etcd's client port, or enable h2 in the proxy that terminates TLS"

  for name, args in pairs {
    ["without ALPN"] = {},
    ["with ALPN for HTTP/1.1 only"] = { "-alpn", "http/1.1" },
  } do
    it(name .. ' makes calls fail with "protocol", and doctor tells the remedy', function()
      local endpoint = start((table.unpack or unpack)(args))
      tls.assert_refused(connect_to(endpoint), "protocol",
        'does not select HTTP/2 %(ALPN "h2"%); ' .. REMEDY .. "$")
      local out, status = command.run { "--endpoints", endpoint, "--cacert", ca.cert, "doctor" }
      assert.equal(1, status)
      assert.matches('(ALPN "h2")\n         -> ' .. REMEDY .. "\n", out, 1, true)
    end)
  end
end)
