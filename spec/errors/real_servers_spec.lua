-- Tests that real servers fail requests with the status and text that the rules of
-- src/base/error.c expect. A scripted etcd without a script forwards the requests and records the
-- answers; table_spec tests how the client treats them. auth_spec has the answers to users without
-- rights, codes_spec those of a full database. A real etcd does not give these answers here:
--   "lease already exists": lease IDs are random numbers of 63 bits
--   "too many requests": needs 5000 requests that etcd has not processed
--   OUT_OF_RANGE: needs a compaction during client:queues (queues_limits_spec)
--   DATA_LOSS: needs members whose data differ
--   UNIMPLEMENTED: needs another gRPC service in place of etcd
-- Needs: one plain member.

local function connect(endpoints, opts)
  return clients.connector(opts) { endpoints = endpoints, timeout = 5 }
end

-- Returns the first row for the number |status| and |text|, or nil.
local function row_of(status, text)
  for _, row in ipairs(error_rows.ROWS) do
    if row.number == status and (not row[2] or text:find(row[2], 1, true)) then return row end
  end
end

-- Asserts that the last refusal of a |method| by etcd had |status| and |text|; returns their row.
local function assert_heard(server, method, status, text)
  local number, said = server:heard(method)
  assert.same({ error_rows.STATUS[status], text }, { number, said })
  return row_of(number, said)
end

-- Asserts that a call failed as |row| says, and that its message contains the address of |server|.
local function assert_told(server, row, ok, message, code)
  assert.is_nil(ok)
  assert.equal(row[3], code, message)
  local hint = row[5] and "; " .. row[5] or ""
  assert.matches(("etcd %s: %s%s"):format(server.address, row.says, hint), message, 1, true)
end

describe("etcd", function()
  it('answers "lease not found" for a revoked lease, and the client gets a new one', function()
    local client = connect(server:endpoint())
    assert(client:lock "a"):unlock()
    local lease = client:lease()
    suite.etcd():revoke(lease)
    local lock = assert(client:lock "a")
    assert_heard(server, "Txn", "NOT_FOUND", "etcdserver: requested lease not found")
    assert.are_not.equal(lease, lock:lease())
    assert.is_true(lock:check())
  end)

  it('without authentication answers "not enabled" to a user, and locks are granted', function()
    local client = connect(server:endpoint(), { user = "somebody", password = "secret" })
    assert(client:lock "a"):unlock()
    assert_heard(server, "Authenticate", "FAILED_PRECONDITION",
      "etcdserver: authentication is not enabled")
  end)

  it("refuses requests to a learner, and the client asks another member", function()
    rounds.undisturbed(function(timed)
      local etcd = Etcd.start()
      local server = clients.scripted(etcd:add_learner())
      local client = connect(server:endpoint() .. "," .. etcd:endpoint())
      local from = wait.now()
      timed(function() assert(client:lock "a"):unlock() end)
      assert.is_true(wait.now() - from < 4) -- less than the timeout of the client
      local number, said = server:heard "LeaseGrant"
      assert.equal("etcdserver: rpc not supported for learner", said)
      local row = row_of(number, said)
      assert.is_true(row.definite, "it may not have been done")
      local message = assert_fails("unavailable", timed(function()
        return connect(server:endpoint()):lock("a", { timeout = 0.45 })
      end))
      assert.matches(server.address .. ": etcdserver: rpc not supported for learner", message, 1,
        true)
    end, clients.close_all)
  end)

  it('refuses values of 1.6 and 3 MB as too large, and put fails with "invalid"', function()
    local lock = assert(connect(server:endpoint()):lock "a")
    local _, message, code = lock:put(prefix .. "data", ("v"):rep(1600000))
    assert_told(server, assert_heard(server, "Txn", "INVALID_ARGUMENT",
      "etcdserver: request is too large"), nil, message, code)
    _, message, code = lock:put(prefix .. "data", ("v"):rep(3000000))
    local status, said = server:heard "Txn"
    assert.equal(error_rows.STATUS.RESOURCE_EXHAUSTED, status)
    assert.matches("grpc: received message larger than max", said, 1, true)
    assert.equal("invalid", code)
    -- Regression 271. The message did not name the limit.
    assert.matches("received message larger than max .*; etcd's default limit is 1.5 MiB", message)
    assert.is_true(lock:check())
  end)

  -- Regression 271. The message did not name the limit, which only etcd knows.
  it("refuses a txn of too many operations, and the message names the limit", function()
    local etcd = Etcd.start { args = { "--max-txn-ops", "150" } }
    local function put_many(endpoint, count)
      local lock, list = assert(connect(endpoint):lock "a"), {}
      for i = 1, count do list[i] = { "put", prefix .. "data" .. i, "v" } end
      local results, message, code = lock:txn(list)
      assert.is_true(lock:unlock())
      return results, message, code
    end
    assert.equal(128, #put_many(suite.endpoint(), 128))
    suite.etcd():del_all(prefix .. "data")
    local message = assert_fails("invalid", put_many(suite.endpoint(), 129))
    assert.matches(('^lock "%sa": txn "%sdata1", .* more: etcd .*: etcdserver: too many operations '
      .. "in txn request; etcd's default limit is 128 operations %%(%%-%%-max%%-txn%%-ops%%)$")
      :format(prefix, prefix), message)
    assert.same({}, suite.etcd():keys(prefix .. "data"))
    assert.equal(150, #put_many(etcd:endpoint(), 150))
  end)
end)

describe("etcd with authentication", function()
  local etcd, files

  setup(function()
    -- Only a signed token contains the revision at which it was made, and can be too old.
    files = Certs.new()
    etcd = secured.start(prefix, { args = { secured.jwt(files, 60) } })
  end)

  teardown(function() files:remove() end)

  it("refuses a token older than a role change, and the client gets a new one", function()
    rounds.undisturbed(function(timed, round)
      local server = clients.scripted(etcd:endpoint())
      local client = connect(server:endpoint(), { user = "locker", password = secured.PASSWORD })
      local function use() assert(client:lock "a"):unlock() end
      timed(use)
      secured.ctl(etcd, "role", "grant-permission", "locks", "read", "another" .. round)
      timed(use)
      assert_heard(server, "Txn", "INVALID_ARGUMENT", "etcdserver: revision of auth store is old")
      assert.equal(2, server:calls "Authenticate")
    end, clients.close_all)
  end)
end)

it('a member without a leader answers "no leader", and lock fails with "unavailable"', function()
  local etcd = Etcd.start { members = 3 }
  local server = clients.scripted(etcd:endpoint())
  -- The TTL is long, because a client whose lease has ended requests a lease and sends no Txn.
  local client = connect(server:endpoint(), { ttl = 60 })
  assert(client:lock "a"):unlock()
  etcd:kill(2)
  etcd:kill(3)
  -- The outcome of an enqueue before that could be unknown, and the client would end its lease.
  wait.eventually(function()
    local status = etcd:ctl("endpoint", "status", "--write-out=json")
    return status:find '"raftTerm"' and not status:find '"leader":'
  end, 20, "the member knows of no leader")
  local message, code
  wait.eventually(function()
    local _
    _, message, code = client:lock("a", { timeout = 1 })
    local status, said = server:heard "Txn"
    return status == error_rows.STATUS.UNAVAILABLE and said == "etcdserver: no leader", said
  end, 20, "no leader")
  assert.equal("unavailable", code, message)
  assert.matches(server.address, message, 1, true)
  etcd:restart(2, { wait = false })
  etcd:restart(3)
  assert(client:lock("a", { timeout = 10 })):unlock()
  assert.same({}, etcd:keys(prefix))
end)

describe("a call to an endpoint", function()
  it('of a paused etcd fails with "unavailable", also on a new connection', function()
    local etcd = Etcd.start()
    local client = connect(etcd:endpoint())
    assert(client:lock "a"):unlock()
    etcd:pause()
    local message = assert_fails("unavailable", client:lock("a", { timeout = 5 }))
    assert.matches("the server accepts connections, but has not answered in time", message, 1, true)
  end)
end)
