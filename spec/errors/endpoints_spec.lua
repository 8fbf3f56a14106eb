-- Tests which endpoints connect refuses, and what it tells about them.

-- Regression 055. connect accepted endpoints that cannot lead to an etcd: a port with a sign or
-- white space, an empty or malformed IPv6 address, a host with characters that no host name has, a
-- path that is too long for a socket. Calls failed later, with messages about the connection.

-- Returns the message with which connect refuses |endpoint|.
local function refusal(endpoint)
  return assert_fails("invalid",
    etcdlock.connect { endpoints = { endpoint }, env = false })
end

describe("connect refuses", function()
  for _, endpoint in ipairs {
    "h:\t2379", "h: 2379", "h:+80", "h:-80", "h:0x50", "h:80 ", "h:", "h:002379", "[]:1",
    "[:1", "[1]:1", "[::1:1", "[::1]]:1", "[[::1]:1", "[127.0.0.1]:1",
    "[::1%]:1", "[::1%a b]:1", "[::1%a]b]:1", "h\n:1", "h\1:1", "h%41:1", 'h":1', "h\\:1",
    "h\195\164:1", "h[1]:1", "h;x:1", "http://h:+80", "https://[]:1", "ftp://a:1", "a:port",
    "http://", "a b:1",
  } do
    it("the endpoint " .. ("%q"):format(endpoint):gsub("[\n\t\1]", "?"), function()
      assert.matches('^etcdlock.connect: endpoint ".*" is not %[http%[s%]://%]host:port or '
        .. "unix:path$", refusal(endpoint))
    end)
  end

  it("a number that is no port", function()
    for _, port in ipairs { "0", "65536", "99999", "4294967376" } do
      for _, host in ipairs { "127.0.0.1", "http://h", "[::1]" } do
        assert.equal(('etcdlock.connect: endpoint "%s:%s" has the port %s, wanted 1 to 65535')
          :format(host, port, port), refusal(host .. ":" .. port))
      end
    end
  end)

  it("unix paths of more than 107 bytes", function()
    for _, scheme in ipairs { "unix:", "unix://", "unixs:", "unixs://" } do
      local message = refusal(scheme .. "/" .. ("a"):rep(107))
      assert.matches("has a path of 108 bytes, wanted at most 107; use a shorter path$", message)
      assert.matches('endpoint "' .. scheme .. "/aaa", message, 1, true)
    end
    assert.matches("has a path of 5000 bytes", refusal("unix:" .. ("a"):rep(5000)))
  end)

  it("an endpoint without a host or path, a longer one, and text around a port", function()
    for _, endpoint in ipairs {
      " ", ":2379", "a:2379x", "user@a:2379", "unix:", "a:2379\0", ("a"):rep(400) .. ":2379",
    } do
      assert.matches("endpoint", refusal(endpoint))
    end
  end)
end)

describe("connect accepts", function()
  for _, endpoint in ipairs {
    "h:1", "H-1.example.:65535", "a_b:2379", "127.0.0.1:00080", "[::]:1", "[::1]:1",
    "[::ffff:127.0.0.1]:1", "[fe80::1%eth0.1]:1", "unix:a", "unix:/" .. ("a"):rep(106),
  } do
    it("the endpoint " .. endpoint, function()
      assert(etcdlock.connect { endpoints = { endpoint }, env = false }):close()
    end)
  end
end)

-- Regression 072. Raw text of gRPC reached users. If an IPv6 address had an unknown zone, or the
-- path of a unix socket had a space, calls failed with "Failed to create secure client channel",
-- and gRPC wrote lines to standard error. In a zone or in such a path, "%" and two hex digits were
-- decoded as one character. An IPv6 address without brackets or a port was refused without a hint.

-- Returns the message of a lock call of a client of |endpoint|, and all that its process has
-- written to standard error.
local function failure(endpoint)
  local child = proc.lua([[
    local client = assert(require "etcdlock".connect { endpoints = ..., env = false })
    print("failed", client:lock("a", { timeout = 0.5 }))
    client:close()
  ]], endpoint)
  local message = child:expect "^failed\tnil\t(.*)\tunavailable"
  child:wait()
  return message, child:errors()
end

it("an unknown zone is reported, without lines on standard error", function()
  local message, errors = failure "[fe80::1%nowhere]:2379"
  assert.matches("etcd [fe80::1%nowhere]:2379: this machine has no such network interface",
    message, 1, true)
  -- Newer versions of gRPC write log lines that etcdlock cannot stop.
  if not errors:find("absl", 1, true) then assert.equal("", errors) end
end)

it("a zone may begin with hex digits", function()
  local message, errors = failure "[fe80::1%99]:2379"
  assert.is_nil(message:find("no such network interface", 1, true), message)
  assert.equal("", errors)
end)

-- Regression 076. gRPC took "%" and two digits in an IPv6 zone for an escape sequence of a URI, and
-- used another zone.
it("an IPv6 zone of two digits is not taken for an escape", function()
  if not Etcd.can_listen "::1" then return pending "this machine has no IPv6" end
  assert.matches("etcd [::1%01]:1: Connection refused", failure "[::1%01]:1", 1, true)
end)

it("the path of a unix socket may contain any character", function()
  local file = os.tmpname()
  os.remove(file)
  local path = file .. " %41?#\195\164"
  local message, errors = failure("unix:" .. path)
  assert.matches("the Unix socket does not exist", message, 1, true)
  assert.equal("", errors)
  local server = uv.new_pipe(false)
  assert(server:bind(path))
  assert(server:listen(8, function() end))
  message, errors = failure("unix:" .. path)
  server:close()
  assert.is_nil(message:find("the Unix socket does not exist", 1, true), message)
  assert.equal("", errors)
end)

for endpoint, corrected in pairs {
  ["[::1]"] = "[::1]:2379",
  ["::1"] = "[::1]:2379",
  ["::1:2379"] = "[::1]:2379",
  ["https://2001:db8::1:2380"] = "https://[2001:db8::1]:2380",
  ["fe80::1%eth0:2379"] = "[fe80::1%eth0]:2379",
  ["http://[::1]/"] = "http://[::1]:2379",
} do
  it("connect refuses " .. endpoint .. " with the correct form", function()
    assert.equal(('etcdlock.connect: endpoint "%s" is not [IPv6 address]:port; write "%s"')
      :format(endpoint, corrected), refusal(endpoint))
  end)
end
