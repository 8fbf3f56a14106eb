-- connect accepted endpoints that cannot lead to an etcd: a port with a sign or white space, an
-- empty or malformed IPv6 address, a host with characters that no host name has, a path that is
-- too long for a socket. Calls failed later, with messages about the connection.

local clients = require "spec.support.harness.clients"
local etcdlock = require "etcdlock"

-- Returns the message with which connect refuses |endpoint|.
local function refusal(endpoint)
  return clients.assert_fails("invalid",
    etcdlock.connect { endpoints = { endpoint }, env = false })
end

describe("regression 055: connect refuses", function()
  for _, endpoint in ipairs {
    "h:\t2379", "h: 2379", "h:+80", "h:-80", "h:0x50", "h:80 ", "h:", "h:0", "h:65536",
    "h:4294967376", "[]:1", "[:1", "[1]:1", "[::1:1", "[::1]]:1", "[[::1]:1", "[127.0.0.1]:1",
    "[::1%]:1", "[::1%a b]:1", "[::1%a]b]:1", "h\n:1", "h\1:1", "h%41:1", 'h":1', "h\\:1",
    "h\195\164:1", "h[1]:1", "h;x:1", "http://h:+80", "https://[]:1",
  } do
    it("the endpoint " .. ("%q"):format(endpoint):gsub("[\n\t\1]", "?"), function()
      assert.matches('^etcdlock.connect: endpoint ".*" is not %[http%[s%]://%]host:port or '
        .. "unix:path$", refusal(endpoint))
    end)
  end

  it("unix paths of more than 107 bytes", function()
    for _, scheme in ipairs { "unix:", "unix://", "unixs:", "unixs://" } do
      local message = refusal(scheme .. "/" .. ("a"):rep(107))
      assert.matches("has a path of 108 bytes, wanted at most 107; use a shorter path$", message)
      assert.matches('endpoint "' .. scheme .. "/aaa", message, 1, true)
    end
    assert.matches("has a path of 5000 bytes", refusal("unix:" .. ("a"):rep(5000)))
  end)
end)

describe("regression 055: connect accepts", function()
  for _, endpoint in ipairs {
    "h:1", "H-1.example.:65535", "a_b:2379", "127.0.0.1:00080", "[::]:1", "[::1]:1",
    "[::ffff:127.0.0.1]:1", "[fe80::1%eth0.1]:1", "unix:a", "unix:/" .. ("a"):rep(106),
  } do
    it("the endpoint " .. endpoint, function()
      assert(etcdlock.connect { endpoints = { endpoint }, env = false }):close()
    end)
  end
end)
