-- Tests that a server without a TLS version, cipher, curve or application protocol in common with
-- the client is reported as such at once, not as unreachable.
-- Needs: one plain member.

-- SOON is much less than TIMEOUT: the failure is reported at once, not at the timeout.
local TIMEOUT, SOON = 20, 10 -- seconds

local NOTHING = "127.0.0.1:%d+: the server and the client have no TLS version, cipher and curve in "
  .. "common: TLS 1.2 or newer"

local certs, ca, cert

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

local function connect(...)
  return clients.connector { cacert = ca.cert, timeout = TIMEOUT } { endpoints = { ... } }
end

-- Asserts that |call| fails in less than SOON with |code| and a message that matches |pattern|.
local function assert_refused(code, pattern, call)
  local from = wait.now()
  local ok, message, got = call()
  local took = wait.now() - from
  assert.is_nil(ok)
  assert.equal(code, got, message)
  assert.matches(pattern, message)
  assert.is_true(took < SOON, ("%s, after %.1f s"):format(message, took))
end

setup(function()
  certs = Certs.new()
  ca = certs:ca()
  cert = certs:issue(ca, "server", { algorithm = "rsa" })
end)

teardown(function() certs:remove() end)

describe("a server that speaks only", function()
  for name, args in pairs {
    ["TLS 1.1"] = { "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0" },
    ["TLS 1.0"] = { "-tls1", "-cipher", "DEFAULT@SECLEVEL=0" },
    ["TLS 1.2 with CBC"] = { "-tls1_2", "-cipher", "AES128-SHA@SECLEVEL=0" },
  } do
    it(name .. ' makes each call fail with "protocol" at once', function()
      local client = connect(serve((table.unpack or unpack)(args)))
      for _, call in ipairs {
        function() return client:lock "a" end,
        function() return client:try_lock "a" end,
        function() return client:ping() end,
        function() return client:queue "a" end,
      } do
        assert_refused("protocol", NOTHING, call)
      end
      assert.is_true(client:stats().rpcs < 20, client:stats().rpcs)
    end)
  end

  for _, version in ipairs { "2", "3" } do
    it("TLS 1." .. version .. " is not reported as having no TLS version in common", function()
      local client = connect(serve("-tls1_" .. version))
      local ok, message = client:lock("a", { timeout = 1 })
      assert.is_nil(ok)
      assert.is_nil(message:find "in common", message)
    end)
  end
end)

describe("a member that speaks only TLS 1.1", function()
  it("is skipped for a member that supports a newer version", function()
    local client = connect(serve("-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"), suite.endpoint())
    local from = wait.now()
    assert(assert(client:lock "a"):unlock())
    assert.is_true(wait.now() - from < SOON)
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
      assert_refused("protocol", 'does not select HTTP/2 %(ALPN "h2"%); ' .. REMEDY .. "$",
        function() return connect(endpoint):lock "a" end)
      local out, status = command.run { "--endpoints", endpoint, "--cacert", ca.cert, "doctor" }
      assert.equal(1, status)
      assert.matches('(ALPN "h2")\n         -> ' .. REMEDY .. "\n", out, 1, true)
    end)
  end
end)
