-- Tests answers of etcd that are malformed or out of range.
-- Needs: one plain member.

-- Regression 060. The client assumed that each answer fits its request. An answer that lacked the
-- expected responses, or was nested thousands of levels deep, crashed the process.
scripted_client { ttl = 5 }

-- ---- messages ----

local SUCCEEDED = protobuf.number(2, 1)

-- Returns a response to operation |kind| of a transaction with the encoded |content|.
local KINDS = { range = 1, put = 2, delete = 3, txn = 4 }
local function response(kind, content)
  return protobuf.bytes(3, protobuf.bytes(KINDS[kind], content or ""))
end

-- Returns the answer to a transaction that is nested |levels| deep below the outermost one.
local function nested(levels)
  local message = SUCCEEDED
  for _ = 1, levels do message = SUCCEEDED .. response("txn", message) end
  return message
end

-- Returns the response to a range with keys of these create_revisions.
local function range(...)
  local kvs = { ... }
  for i, revision in ipairs(kvs) do
    kvs[i] = protobuf.bytes(2, protobuf.bytes(1, prefix .. "data") .. protobuf.number(2, revision))
  end
  return protobuf.bytes(3, protobuf.bytes(1, table.concat(kvs)))
end

-- ---- one transaction ----

local TXN = "the answer to a Txn cannot be read"

-- Answers to a read; whole ones, with their header, if "replace" follows.
local READ = {
  { 'says "not succeeded" to a request without conditions', "" },
  { "has no response", SUCCEEDED },
  { "has one response too many", SUCCEEDED .. response "range" .. response "range" },
  { "has a response without a kind", SUCCEEDED .. protobuf.bytes(3, "") },
  { "has the response to a put", SUCCEEDED .. response "put" },
  { "has the response to a delete", SUCCEEDED .. response "delete" },
  { "is nested 1 level deep", nested(1) },
  { "is nested 5,000 levels deep", nested(5000) },
  { "is truncated", SUCCEEDED .. "\26\100" },
  { "has no header", SUCCEEDED .. response "range", "replace" },
  -- Regression 074.
  { "has no revision", protobuf.bytes(1, protobuf.number(1, 1)) .. SUCCEEDED .. range(3),
    "replace" },
  { "has a key with the revision 0", SUCCEEDED .. range(3, 0) },
  { "has a key with the revision -1", SUCCEEDED .. range(3, -1) },
}

for _, row in ipairs(READ) do
  local what, bytes, how = row[1], row[2], row[3] or "forge"
  it('a read fails with "protocol" if its answer ' .. what, function()
    server[how](server, "Txn", bytes, 1)
    local message = assert_fails("protocol", client:queue "a")
    assert.matches("etcd " .. server.address .. ": " .. TXN, message, 1, true)
    assert.same({}, client:queue "a")
  end)
end

-- etcd has applied the put, so its outcome is unknown to the client.
it('put fails with "unavailable", get with "protocol" after a response of another kind', function()
  local lock = assert(client:lock "a")
  clients.await_watched(client, lock)
  server:forge("Txn", SUCCEEDED .. response "range", 1)
  assert.matches(TXN, assert_fails("unavailable", lock:put(prefix .. "data", "x")), 1, true)
  server:forge("Txn", SUCCEEDED .. response "put", 1)
  assert_fails("protocol", lock:get(prefix .. "data"))
end)

it('lock and try_lock fail with "protocol" if no response comes', function()
  for _, bytes in ipairs { "", SUCCEEDED } do
    server:forge("Txn", bytes, 1)
    assert_fails("protocol", client:try_lock "a")
    server:forge("Txn", bytes, 1)
    assert_fails("protocol", client:lock("b", { timeout = 5 }))
  end
  etcd:await_keys(prefix, 0, 10)
end)

it("a malformed answer to the read of a waiter crashes nothing", function()
  local holder = connect { elsewhere = true, ttl = 30 }
  local lock = assert(holder:lock "a")
  local waiter = assert(client:lock_async "a")
  etcd:await_keys(prefix, 2)
  clients.assert_wait(waiter)
  server:forge("Txn", "", 1)
  assert.is_true(lock:unlock())
  local _, message = clients.ended(waiter)
  assert.is_true(message == nil or message:find(TXN, 1, true) ~= nil, message)
end)

-- ---- batches ----

-- Starts five lock calls while two requests are in flight. Repeats this until at least two of the
-- five requests left in one batch. In all of etcd's answers to the five, |bytes| follow the header.
-- Returns the results of each call.
local function lock_in_a_batch(bytes)
  local round, all = 0, {}
  assert(client:lock "warm"):unlock()
  wait.eventually(function()
    round = round + 1
    local shared, asked = client:stats().batched, {}
    server:hold_back("Txn", 2)
    for i = 1, 2 do
      clients.keep(assert(client:lock_async(("first%d-%d"):format(round, i))))
      wait.eventually(function() return server:held "Txn" == i end, 5, "requests that are out")
    end
    server:forge("Txn", bytes)
    for i = 1, 5 do asked[i] = assert(client:lock_async(("b%d-%d"):format(round, i))) end
    for i, pending in ipairs(asked) do all[i] = { clients.ended(pending) } end
    server:pass()
    server:tell "Txn"
    return client:stats().batched > shared
  end, 10, "a batch")
  return all
end

local BATCH = {
  { 'says "not succeeded"', "" },
  { "has no response", SUCCEEDED },
  { "has responses to reads", SUCCEEDED .. response("range"):rep(5) },
  { "has responses without a kind", SUCCEEDED .. protobuf.bytes(3, ""):rep(5) },
  { "has empty answers to its members", SUCCEEDED .. response("txn"):rep(5) },
  { "is nested 5,000 levels deep", nested(5000) },
}

for _, row in ipairs(BATCH) do
  local what, bytes = row[1], row[2]
  it('the locks of a batch fail with "protocol" if its answer ' .. what, function()
    for _, answer in ipairs(lock_in_a_batch(bytes)) do
      local message = assert_fails("protocol", (table.unpack or unpack)(answer, 1, 3))
      assert.matches("cannot be read", message, 1, true)
    end
  end)
end

-- ---- leases, watches and members ----

local HUGE = ("\255"):rep(8) .. "\127" -- 2^63 - 1
local HUGE_TTL, HUGE_HEADER = "\24" .. HUGE, protobuf.bytes(1, "\24" .. HUGE)

it('lock fails with "protocol" if the answer to LeaseGrant is malformed', function()
  local answers = {
    { "replace", "" }, { "forge", "" }, { "extend", HUGE_TTL },
    { "extend", HUGE_HEADER }, -- regression 246
  }
  for i, answer in ipairs(answers) do
    server[answer[1]](server, "LeaseGrant", answer[2], 1)
    local message = assert_fails("protocol", client:lock("a" .. i, { timeout = 5 }))
    assert.matches("the answer to a LeaseGrant cannot be read", message, 1, true)
  end
  assert.is_true(assert(client:lock "a"):unlock())
end)

it('status has code "protocol" if the answer of a member has no header', function()
  server:replace("Status", "", 1)
  local members = assert(client:status())
  assert.equal("protocol", members[1].code)
end)

for what, answer in pairs {
  ["a message of its watch is malformed"] = { "replace", protobuf.bytes(11, "") },
  -- Regression 246.
  ["the first message of its watch has an impossible revision"] = { "extend", HUGE_HEADER },
} do
  it("a waiter gets its lock if " .. what, function()
    local lock = assert(connect { elsewhere = true, ttl = 30 }:lock "a")
    server[answer[1]](server, "Watch", answer[2], 1)
    local waiter = assert(client:lock_async "a")
    wait.eventually(function() return server:calls "Watch" == 2 end, 5, "a second stream")
    clients.assert_wait(waiter)
    assert.is_true(lock:unlock())
    assert.is_true(clients.granted(waiter):unlock())
  end)
end

-- Regression 074. The client used answers that cannot be right. A lease was shorter than the client
-- had requested, so it could be shorter than the lock delay. A revision was 0 or negative. The
-- answer to a read of one key had several keys.
it('lock fails with "protocol" if the lease is shorter than asked for', function()
  server:extend("LeaseGrant", protobuf.number(3, 4), 1)
  local message = assert_fails("protocol", client:lock("a", { timeout = 5 }))
  local expected = ("etcd %s: a lease of 5 s was requested, and one of 4 s was granted; ")
    :format(server.address)
  assert.matches(expected, message, 1, true)
  assert.is_true(assert(client:lock "b"):unlock())
  server:extend("LeaseGrant", protobuf.number(3, 1), 1)
  etcd:await_keys(prefix, 0, 10)
end)

it("a longer lease than asked for is used", function()
  server:extend("LeaseGrant", protobuf.number(3, 30), 1)
  local lock = assert(client:lock "a")
  assert.is_true(lock:remaining() > 6)
  assert.is_true(lock:unlock())
end)

-- ---- transactions ----

it('a read of one key fails with "protocol" if the answer has two', function()
  local lock = assert(client:lock "a")
  clients.await_watched(client, lock)
  server:forge("Txn", SUCCEEDED .. range(3, 4), 1)
  assert_fails("protocol", lock:get(prefix .. "data"))
  assert.is_true(lock:unlock())
end)

-- Regression 246. After an answer with the revision 2^63 - 1, the client did not notice any more
-- that etcd's revision had gone back.

-- Returns an answer to a read of one key, with these encoded revisions of its header and its key.
local function answer(header_revision, key_revision)
  local header = protobuf.number(1, 1) .. protobuf.number(2, 1) .. "\24" .. header_revision
    .. protobuf.number(4, 1)
  local kv = protobuf.bytes(1, prefix .. "data") .. "\16" .. key_revision
  return protobuf.bytes(1, header) .. SUCCEEDED
    .. response("range", protobuf.bytes(2, kv))
end

it("an answer with an impossible revision is not used", function()
  for _, row in ipairs { { "\7", "\3", true }, { HUGE, "\3" }, { "\7", HUGE } } do
    scripted_client { ttl = 5 } -- has no answer of etcd yet, so any cluster may answer
    server:replace("Txn", answer(row[1], row[2]), 1)
    if row[3] then
      assert.equal("", client:get(prefix .. "data"))
    else
      assert.matches(TXN, assert_fails("protocol", client:get(prefix .. "data")), 1, true)
    end
  end
end)
