-- Tests the code and message that a caller gets for each failure of etcd or the network.

describe("a failed request", function()
  local STATUS = error_rows.STATUS
  local UNAVAILABLE = STATUS.UNAVAILABLE

  -- Each row: the gRPC status, and a text that the examples of error_rows.lua lack. Then the
  -- expected results: the code; and whether the request was certainly not applied, and may be
  -- retried.
  local ROWS = {
    -- An answer is too large, so etcd may have carried out the request.
    { STATUS.RESOURCE_EXHAUSTED, "Received message larger than max (40000000 vs. 33554432)",
      "invalid", false, false },
    -- A request that was sent may have been applied, whatever broke the connection.
    { UNAVAILABLE, "", "unavailable", false, true },
    { STATUS.CANCELLED, "context canceled", "unavailable", false, true },
    { STATUS.UNKNOWN, "etcdserver: something new", "unavailable", false, true },
    { 10, "x", "unavailable", false, true },
    { STATUS.INTERNAL, "x", "unavailable", false, true },
    { STATUS.DATA_LOSS, "x", "unavailable", false, true },
    { STATUS.NOT_FOUND, "etcdserver: user name not found", "unavailable", false, true },
    { STATUS.FAILED_PRECONDITION, "etcdserver: something else", "unavailable", false, true },
    { 99, "a status of the future", "unavailable", false, true },
  }

  for _, row in ipairs(ROWS) do
    local status, text, code, definite, retriable = (table.unpack or unpack)(row)
    it(("with status %d and text %q has the code %s"):format(status, text, code), function()
      if not core.test then return pending "needs a build with TESTING=1" end
      local got = { core.test.classify(status, text) }
      assert.same({ code, definite, retriable, false }, { got[1], got[2], got[3], got[4] })
      assert.matches("127.0.0.1:2379", got[5], 1, true)
    end)
  end

  it("has a message with the endpoint, the cause and the remedy", function()
    local function text(status, details) return (select(5, core.test.classify(status, details))) end
    assert.equal("etcd 127.0.0.1:2379: etcdserver: permission denied",
      text(STATUS.PERMISSION_DENIED, "etcdserver: permission denied"))
    assert.equal("etcd 127.0.0.1:2379: Connection refused", text(UNAVAILABLE,
      "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:2379: "
      .. "Failed to connect to remote host: Connection refused"))
    assert.equal("etcd 127.0.0.1:2379: oops",
      text(UNAVAILABLE, "failed to connect to all addresses; last error: UNKNOWN: oops"))
    assert.equal("etcd 127.0.0.1:2379: no answer in time",
      text(STATUS.DEADLINE_EXCEEDED, "Deadline Exceeded"))
    assert.equal("etcd 127.0.0.1:2379: no reason given", text(UNAVAILABLE, ""))
    assert.matches("database space exceeded; .*defragment",
      text(STATUS.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"))
    assert.matches("user name is empty; .*password",
      text(STATUS.INVALID_ARGUMENT, "etcdserver: user name is empty"))
    assert.matches("; .*not an etcd", text(STATUS.UNIMPLEMENTED, "unknown service"))
  end)

  -- For each row of the table |plain| in error.c: a text that contains its |part|, and the text
  -- that a caller reads.
  local PLAIN = {
    { "etcdserver: recvmsg GOAWAY", "etcdserver: recvmsg GOAWAY" }, -- etcd's own text is unchanged
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
    { "Buffers full", "unfinished answers take more than 128 MiB" },
    { "Received http2 header with status: 502",
      "a proxy or web server has answered in place of etcd, HTTP status: 502" },
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
    local text = select(5, core.test.classify(STATUS.UNKNOWN, ("x"):rep(100000)))
    assert.is_true(#text < 1000)
    assert.matches("^etcd 127.0.0.1:2379: xxx", text)
  end)
end)

describe("a server that is not etcd", function()
  -- A server that answers all data on each connection as HTTP/1 does. It listens on the Unix socket
  -- |path|, or on a port if |path| is nil.
  local SERVER = [[
    local uv, path = require "luv", ...
    local function new() return path and uv.new_pipe(false) or uv.new_tcp() end
    local server = new()
    assert(server:bind(path or "127.0.0.1", 0))
    uv.new_signal():start("sigpipe", function() end) -- luv leaves that to us
    server:listen(16, function()
      local peer = new()
      server:accept(peer)
      peer:read_start(function(_, data)
        if not data then return peer:close() end
        peer:write "HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\nConnection: close\r\n\r\nhey\n"
      end)
    end)
    print("at " .. (path and "unix:" .. path or "127.0.0.1:" .. server:getsockname().port))
    uv.run()
  ]]

  local function assert_no_etcd(...)
    local endpoint = proc.lua(SERVER, ...):expect "^at (.*)"
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
  end

  it('but speaks HTTP/1 makes calls fail with "protocol" at once', function() assert_no_etcd() end)

  -- Regression 237. The wait went on for ever, because what is wrong with one endpoint counted as
  -- an answer.
  it("does not keep the first wait from ending if the other endpoint is refused", function()
    local endpoint = proc.lua(SERVER):expect "^at (.*)"
    local client = connect { endpoints = endpoint .. ",127.0.0.1:1", env = false }
    assert_fails("unavailable", clients.ended(client:lock_async "a", 6 + wait.SLACK))
  end)

  it("is also recognized on a Unix socket", function()
    assert_no_etcd(temporary.directory() .. "/socket")
  end)
end)

describe("an etcd whose database is full", function()
  it('refuses new locks with "no_space", lets holders unlock, and recovers', function()
    local own = suite.start { args = { "--quota-backend-bytes", "2000000" } }
    local client = connect { endpoints = own:endpoints() }
    local lock = assert(client:lock "a")
    local big = ("v"):rep(600000)
    wait.eventually(function()
      local _, why = lock:put(prefix .. "filler", big)
      return why and why:find("database space exceeded", 1, true)
    end, 20, "full")
    local message = assert_fails("no_space", client:lock("b", { timeout = 5 }))
    assert.matches("database space exceeded", message, 1, true)
    assert.matches("defragment", message, 1, true)
    assert_fails("no_space", client:try_lock "b")
    assert_fails("no_space", client:with_lock("b", error))
    -- Regression 243. etcd's quota check applies a write and then refuses it (quota.go), so the
    -- outcome is unknown. The code was "no_space", and programs repeated the write.
    message = assert_fails("unavailable", lock:put(prefix .. "data", "v"))
    assert.matches("database space exceeded", message, 1, true)
    assert.is_true(lock:check())
    local value = lock:get(prefix .. "data")
    assert.is_true(value == false or value == "v")
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
