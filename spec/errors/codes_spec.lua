-- Tests the code and message that a caller gets for each failure of etcd or the network.

-- Starts an etcd with |opts| for the running test; returns it and a client with option |env|.
local function private(opts, env)
  local own = suite.start(opts)
  return own, connect { endpoints = own:endpoints(), env = env }
end

describe("a failed request", function()
  -- The status codes of gRPC.
  local CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND = 1, 2, 3, 4, 5
  local PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION = 7, 8, 9
  local ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL = 10, 11, 12, 13
  local UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED = 14, 15, 16

  -- Each row: the gRPC status, and the text of etcd or gRPC. Then the expected results: the code;
  -- and whether the request was certainly not applied, may be retried, and means that the lease is
  -- gone.
  local ROWS = {
    { NOT_FOUND, "etcdserver: requested lease not found", "lost", true, false, true },
    { FAILED_PRECONDITION, "etcdserver: lease already exists", "conflict", true, true, false },
    { INVALID_ARGUMENT, "etcdserver: user name is empty", "unauthenticated", true, false, false },
    { INVALID_ARGUMENT, "etcdserver: authentication failed, invalid user ID or password",
      "unauthenticated", true, false, false },
    { INVALID_ARGUMENT, "etcdserver: revision of auth store is old", "unauthenticated",
      true, false, false },
    { INVALID_ARGUMENT, "etcdserver: request is too large", "invalid", true, false, false },
    { INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request", "invalid",
      true, false, false },
    { INVALID_ARGUMENT, "etcdserver: too many operations in txn request", "invalid",
      true, false, false },
    { INVALID_ARGUMENT, "etcdserver: key is not provided", "invalid", true, false, false },
    { UNAUTHENTICATED, "etcdserver: invalid auth token", "unauthenticated", true, false, false },
    { PERMISSION_DENIED, "etcdserver: permission denied", "denied", true, false, false },
    { RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", "no_space",
      false, false, false },
    { RESOURCE_EXHAUSTED, "etcdserver: too many requests", "unavailable", true, true, false },
    -- In the first row etcd has refused a request that is too large. In the two other rows an
    -- answer is too large, so etcd may have carried out the request.
    { RESOURCE_EXHAUSTED, "grpc: received message larger than max (3000000 vs. 2097152)", "invalid",
      true, false, false },
    { RESOURCE_EXHAUSTED, "Received message larger than max (40000000 vs. 33554432)", "invalid",
      false, false, false },
    { RESOURCE_EXHAUSTED, "received initial metadata size exceeds limit", "invalid",
      false, false, false },
    { OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted", "invalid",
      true, false, false },
    { UNIMPLEMENTED, "unknown service etcdserverpb.KV", "protocol", true, false, false },
    -- A request that was sent may have been applied, whatever broke the connection.
    { UNAVAILABLE, "etcdserver: no leader", "unavailable", false, true, false },
    { UNAVAILABLE, "etcdserver: leader changed", "unavailable", false, true, false },
    { UNAVAILABLE, "etcdserver: request timed out", "unavailable", false, true, false },
    { UNAVAILABLE, "failed to connect to all addresses", "unavailable", false, true, false },
    { UNAVAILABLE, "", "unavailable", false, true, false },
    { DEADLINE_EXCEEDED, "Deadline Exceeded", "unavailable", false, true, false },
    { CANCELLED, "context canceled", "unavailable", false, true, false },
    { UNKNOWN, "etcdserver: something new", "unavailable", false, true, false },
    { ABORTED, "x", "unavailable", false, true, false },
    { INTERNAL, "x", "unavailable", false, true, false },
    { DATA_LOSS, "etcdserver: corrupt cluster", "unavailable", true, false, false },
    { DATA_LOSS, "x", "unavailable", false, true, false },
    { NOT_FOUND, "etcdserver: user name not found", "unavailable", false, true, false },
    { FAILED_PRECONDITION, "etcdserver: something else", "unavailable", false, true, false },
    { 99, "a status of the future", "unavailable", false, true, false },
  }

  for _, row in ipairs(ROWS) do
    local status, text, code, definite, retriable, lease_gone = (table.unpack or unpack)(row)
    it(("with status %d and text %q has the code %s"):format(status, text, code), function()
      if not core.test then return pending "needs a build with TESTING=1" end
      local got = { core.test.classify(status, text) }
      assert.same({ code, definite, retriable, lease_gone },
        { got[1], got[2], got[3], got[4] })
      assert.matches("127.0.0.1:2379", got[5], 1, true)
    end)
  end

  it("has a message with the endpoint, the cause and the remedy", function()
    local function text(status, details) return (select(5, core.test.classify(status, details))) end
    assert.equal("etcd 127.0.0.1:2379: etcdserver: permission denied",
      text(PERMISSION_DENIED, "etcdserver: permission denied"))
    assert.equal("etcd 127.0.0.1:2379: Connection refused", text(UNAVAILABLE,
      "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:2379: "
      .. "Failed to connect to remote host: Connection refused"))
    assert.equal("etcd 127.0.0.1:2379: oops",
      text(UNAVAILABLE, "failed to connect to all addresses; last error: UNKNOWN: oops"))
    assert.equal("etcd 127.0.0.1:2379: no answer in time",
      text(DEADLINE_EXCEEDED, "Deadline Exceeded"))
    assert.equal("etcd 127.0.0.1:2379: no reason given", text(UNAVAILABLE, ""))
    assert.matches("database space exceeded; .*defragment",
      text(RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"))
    assert.matches("user name is empty; .*password",
      text(INVALID_ARGUMENT, "etcdserver: user name is empty"))
    assert.matches("; .*not an etcd", text(UNIMPLEMENTED, "unknown service"))
  end)

  -- For each row of error.c: a text of gRPC core or of a library below it, and the text that a
  -- caller reads.
  local PLAIN = {
    { "etcdserver: recvmsg GOAWAY", "etcdserver: recvmsg GOAWAY" }, -- etcd's own text is unchanged
    { "failed to connect to all addresses; last error: UNKNOWN: unix:/resolv/etcd: No such file or "
      .. "directory", "the Unix socket does not exist" },
    { "DNS resolution failed for a.invalid:2379: C-ares status is not ARES_SUCCESS qtype=A "
      .. "name=a.invalid is_balancer=0: Domain name not found",
      "the host name cannot be resolved" },
    { "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:2379: tcp "
      .. "handshaker shutdown", "no connection in time" },
    { "failed to connect to all addresses; last error: UNKNOWN: Handshake timed out",
      "no connection in time" },
    { "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:10.0.0.1:2379: "
      .. "connection attempt timed out before receiving SETTINGS frame",
      "the server accepts connections, but has not answered in time" },
    { "keepalive watchdog timeout", "the connection is dead" },
    { "GOAWAY received; Error code: 0; Debug Text: ", "the server has closed the connection" },
    { "Endpoint read failed", "the server has closed the connection" },
    { "Socket closed", "the server has closed the connection" },
    { "Received RST_STREAM with error code 8", "the server has ended the call" },
    { "Transport closed", "the server has closed the connection" },
    { "Received message larger than max (40000000 vs. 33554432)", "the answer is too large" },
    { "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:2379: Too many open "
      .. "files", "this process cannot open a socket (ulimit -n, RLIMIT_NOFILE)" },
    { "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:2379: Cannot "
      .. "allocate memory", "this process has no memory left for a connection (ulimit -v, "
      .. "RLIMIT_AS, memory.max of the control group)" },
    { "recvmsg:Connection reset by peer", "the connection broke: Connection reset by peer" },
    { "sendmsg: Broken pipe", "the connection broke: Broken pipe" },
  }

  for _, row in ipairs(PLAIN) do
    it(("has a plain message for the text %q"):format(row[1]), function()
      local text = select(5, core.test.classify(UNAVAILABLE, row[1]))
      assert.equal("etcd 127.0.0.1:2379: " .. row[2], (text:gsub("; the endpoint is not.*", "")))
    end)
  end

  it("has an example in this test for each plain message in error.c", function()
    local body = read_file("src/base/error.c"):match "}%s*plain%[%]%s*=%s*(%b{})"
    local count = 0
    for part in body:gmatch '{"([^"]+)"' do
      count = count + 1
      assert.matches(part, PLAIN[count] and PLAIN[count][1], 1, true)
    end
    assert.equal(#PLAIN, count)
  end)

  it("has a message below 1000 bytes for any text of etcd", function()
    local text = select(5, core.test.classify(UNKNOWN, ("x"):rep(100000)))
    assert.is_true(#text < 1000)
    assert.matches("^etcd 127.0.0.1:2379: xxx", text)
  end)
end)

describe("an unreachable etcd", function()
  it('makes lock fail with "unavailable" within its timeout', function()
    local client = connect { endpoints = "127.0.0.1:1" }
    local from = wait.now()
    local message = assert_fails("unavailable", client:lock("a", { timeout = 0.5 }))
    local waited = wait.now() - from
    assert.is_true(waited < 0.5 + wait.SLACK, waited)
    assert.matches("127.0.0.1:1: Connection refused", message, 1, true)
    assert.matches('lock "a"', message, 1, true)
  end)

  it('makes lock without a timeout fail with "unavailable" if it was never reached', function()
    -- This runs in a child process, because an endless wait would block the whole suite.
    local child = proc.lua [[
      local client = assert(require("etcdlock").connect { endpoints = "127.0.0.1:1" })
      print("answer", client:lock "a")
      client:close()
    ]]
    assert.matches("Connection refused.*\tunavailable$", child:expect("^answer\tnil\t(.*)", 8))
  end)

  it('makes put, check and unlock of a held lock fail with "unavailable"', function()
    local own = private()
    local client = connect { endpoints = own:endpoints(), ttl = 60 }
    local lock, second = assert(client:lock "a"), assert(client:lock "b")
    own:kill()
    local from = wait.now()
    assert_fails("unavailable", lock:put(prefix .. "data", "v"))
    assert_fails("unavailable", lock:check())
    assert_fails("unavailable", lock:unlock())
    assert.is_false((lock:held()))
    assert.is_true(wait.now() - from < 15)
    local ok, result = client:with_lock("b", function() return "ran" end)
    assert.same({ true, "ran" }, { ok, result }) -- this owner holds "b" already
    second:unlock()
  end)
end)

describe("a server that is not etcd", function()
  -- A program with a server that answers all data on each connection with the program's argument.
  local SERVER = [[
    local uv, text = require "luv", ...
    local server = uv.new_tcp()
    server:bind("127.0.0.1", 0)
    uv.new_signal():start("sigpipe", function() end) -- luv leaves that to us
    server:listen(16, function()
      local peer = uv.new_tcp()
      server:accept(peer)
      peer:read_start(function(_, data)
        if not data then return peer:close() end
        if text ~= "" then peer:write(text) end
      end)
    end)
    print("port " .. server:getsockname().port)
    uv.run()
  ]]

  local function serve(text)
    local child = proc.lua(SERVER, text)
    return "127.0.0.1:" .. child:expect "^port (%d+)"
  end

  it('but speaks HTTP/1 makes calls fail with "protocol" at once', function()
    local endpoint = serve("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
      .. "Content-Length: 4\r\nConnection: close\r\n\r\nhey\n")
    local client = connect { endpoints = endpoint, env = false }
    for _ = 1, 3 do
      local from = wait.now()
      local message = assert_fails("protocol", client:lock("a", { timeout = 10 }))
      assert.matches(endpoint, message, 1, true)
      assert.matches("the server does not speak HTTP/2", message, 1, true)
      assert.matches("not an etcd", message, 1, true)
      assert.is_true(wait.now() - from < 1 + wait.SLACK)
    end
    assert_fails("protocol", client:try_lock "a")
    assert_fails("protocol", client:ping())
    assert_fails("protocol", client:queue "a")
  end)

  it('and sends nothing makes lock fail with "unavailable" within its timeout', function()
    local endpoint = serve ""
    local client = connect { endpoints = endpoint, env = false }
    local from = wait.now()
    local message = assert_fails("unavailable", client:lock("a", { timeout = 0.6 }))
    local waited = wait.now() - from
    assert.is_true(waited < 0.6 + wait.SLACK, waited)
    assert.matches(endpoint, message, 1, true)
  end)
end)

describe("an etcd whose database is full", function()
  it('refuses new locks with "no_space", lets holders unlock, and recovers', function()
    local own, client = private { args = { "--quota-backend-bytes", "2000000" } }
    local lock = assert(client:lock "a")
    local big = ("v"):rep(600000)
    wait.eventually(function()
      local _, _, why = lock:put(prefix .. "filler", big)
      return why == "no_space"
    end, 20, "full")
    local message = assert_fails("no_space", client:lock("b", { timeout = 5 }))
    assert.matches("database space exceeded", message, 1, true)
    assert.matches("defragment", message, 1, true)
    assert_fails("no_space", client:try_lock "b")
    assert_fails("no_space", client:with_lock("b", error))
    assert_fails("no_space", lock:put(prefix .. "data", "v"))
    assert.is_true(lock:check())
    assert.is_false((lock:get(prefix .. "data")))
    assert.is_true(lock:unlock())
    local newcomer = connect { endpoints = own:endpoints() }
    assert_fails("no_space", newcomer:lock("b", { timeout = 5 }))

    own:del(prefix .. "filler")
    assert.equal(0, select(2, own:ctl("compact", ("%d"):format(own:revision()))))
    -- With several members, etcdctl sometimes sends the token of one member to another.
    wait.eventually(function()
      local _, code, err = own:ctl "defrag"
      return code == 0, err
    end, 10, "defragmented")
    assert.equal(0, select(2, own:ctl("alarm", "disarm")))
    assert.is_true(assert(client:lock("b", { timeout = 5 })):unlock())
    assert.is_true(assert(newcomer:lock("b", { timeout = 5 })):unlock())
    assert.same({}, own:keys(prefix))
  end)
end)

describe("an etcd with authentication", function()
  it('makes calls of a client without a user fail with "unauthenticated"', function()
    local own, client = private({ tls = false }, false)
    local lock = assert(client:lock "a")
    assert.equal(0, select(2, own:ctl("user", "add", "root:secret")))
    assert.equal(0, select(2, own:ctl("user", "grant-role", "root", "root")))
    assert.equal(0, select(2, own:ctl("auth", "enable")))
    local message = assert_fails("unauthenticated", client:lock("b", { timeout = 5 }))
    assert.matches("user name is empty", message, 1, true)
    assert.matches("password", message, 1, true)
    assert_fails("unauthenticated", client:with_lock("b", { timeout = 5 }, error))
    assert_fails("unauthenticated", client:try_lock "b")
    assert_fails("unauthenticated", client:ping())
    assert_fails("unauthenticated", client:queue "b")
    assert_fails("unauthenticated", lock:put(prefix .. "data", "v"))
    assert_fails("unauthenticated", lock:unlock())
    local newcomer = connect { endpoints = own:endpoints(), env = false }
    assert_fails("unauthenticated", newcomer:lock("b", { timeout = 5 }))
  end)
end)

describe("a pending lock", function()
  it('ends with "closed" and leaves the queue when its client is closed', function()
    rounds.undisturbed(function(timed)
      local holder = connect()
      clients.keep(assert(holder:lock "a"))
      local waiter = connect()
      local wishes = {}
      for i = 1, 3 do
        wishes[i] = assert(waiter._core:lock(prefix .. "a", ""))
      end
      assert.is_nil((wishes[1]:wait(0.2)))
      timed(function() waiter:close() end)
      for _, wish in ipairs(wishes) do
        local ok, message, code = wish:wait(0)
        assert.is_false(ok)
        assert.equal("closed", code, message)
      end
      assert.equal(1, #holder:queue "a")
    end, clients.close_all)
  end)
end)
