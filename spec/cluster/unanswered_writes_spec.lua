-- Tests guarded writes and locks if answers of etcd are late or lost.

-- Regression 040. The client gave up a guarded write if it had no answer after 0.6 s. If there was
-- no other member, this was useless, because a guarded write is not retried. The caller got
-- `unavailable` from an etcd that was only slow.
local SILENCE = 0.8 -- seconds; longer than the 0.6 s after which the client gave up a write
local ATTEMPT = 5 -- seconds; half of the limit of a write here

local function key(i) return prefix .. "data/" .. i end

-- Returns a client with |opts|, and |n| locks that it holds. In the next seconds the client sends
-- no request of its own accord.
local function holding(n, opts)
  opts.prefix, opts.ttl = prefix, 60
  local client, locks = clients.connector(opts)(), {}
  for i = 1, n do locks[i] = assert(client:lock("a" .. i)) end
  wait.eventually(function() return client:stats().watches >= n end)
  for _, lock in ipairs(locks) do clients.await_watched(client, lock) end
  return client, locks
end

-- Starts a guarded write with each of |locks|; returns the writes.
local function start_puts(client, locks)
  local writes = {}
  for i, lock in ipairs(locks) do
    writes[i] = clients.start_put(client, lock, key(i), "new", 10)
  end
  return writes
end

-- Regression 254. put, delete and txn were given up after 3 s, the time of an attempt then,
-- although their limit was longer. An attempt may take 6 s now, and the limit here is 10 s.
it("a guarded write waits for a late answer as long as its limit allows", function()
  local client, locks = holding(1, { endpoints = server:endpoint() })
  server:hold_back("Txn", -1)
  local write = start_puts(client, locks)[1]
  wait.eventually(function() return server:held "Txn" == 1 end)
  wait.sleep(7)
  server:tell "Txn"
  assert.is_true((write:wait(10)))
  assert.equal("new", (etcd:get(key(1))))
end)

it("a batch of guarded writes succeeds if the only member needs 0.8 s", function()
  local client, locks = holding(7, { endpoints = server:endpoint() })
  -- Two writes are in flight, so the others leave as one batch. If they did not, because the
  -- process was too slow, all of this is repeated.
  wait.eventually(function()
    local shared, writes = client:stats().batched, {}
    server:hold_back("Txn", -1)
    for i, lock in ipairs(locks) do
      writes[i] = clients.start_put(client, lock, key(i), "new", 10)
      if i <= 2 then wait.eventually(function() return server:held "Txn" == i end) end
    end
    wait.eventually(function() return server:held "Txn" >= 3 end)
    wait.sleep(SILENCE)
    server:pass()
    server:tell "Txn"
    for i, write in ipairs(writes) do
      assert.is_true((write:wait(10)))
      assert.equal("new", (etcd:get(key(i))))
    end
    return client:stats().batched > shared
  end, 15, "what leaves together")
end)

-- Asserts that |write|, sent at |from|, ends with an unknown outcome within about |ATTEMPT| s.
local function assert_given_up(write, from)
  clients.assert_unheard(write)
  assert.is_true(wait.now() - from < ATTEMPT + wait.SLACK)
end

for when, options in pairs {
  ["if there is another endpoint"] = function()
    return { endpoints = { server:endpoint(), clients.scripted():endpoint() } }
  end,
  ["with fail_fast"] = function() return { endpoints = server:endpoint(), fail_fast = true } end,
} do
  it("a guarded write is given up within 5 s " .. when, function()
    local client, locks = holding(1, options())
    server:hold_back("Txn", -1)
    local from = wait.now()
    assert_given_up(start_puts(client, locks)[1], from)
  end)
end

-- After a failure all other requests wait for the answer to the first one, so the client must not
-- wait for it as long as for other writes.
it("the first guarded write after a failure is given up within 5 s", function()
  local client, locks = holding(1, { endpoints = server:endpoint() })
  local failed = client:stats().failed_attempts
  server:answer("Txn", "before", error_rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
  local asked = assert(client:lock_async "b")
  wait.eventually(function() return client:stats().failed_attempts > failed end)
  server:hold_back("Txn", -1)
  asked:cancel()
  local from = wait.now()
  assert_given_up(start_puts(client, locks)[1], from)
end)

-- Regression 041. If the answer to one request was lost, the client stopped its request queue and
-- reported etcd as unreachable, although etcd had answered later requests.

-- Returns the lock "a", which `client` holds. In the next seconds `client` sends no request of its
-- own accord.
local function holding_one(fail_fast)
  scripted_client { ttl = 60, fail_fast = fail_fast }
  local lock = assert(client:lock "a")
  clients.await_watched(client, lock)
  return lock
end

-- Waits until `server` holds back one answer. Then makes a later request of `client`, which
-- succeeds.
local function answer_another()
  wait.eventually(function() return server:held "Txn" == 1 end)
  wait.sleep(0.002) -- until the clock shows a later time for the next request
  assert(client:ping())
end

it("one lost answer is no outage if etcd answered a later request", function()
  local lock = holding_one(false)
  server:hold_back "Txn"
  local write = clients.start_put(client, lock, prefix .. "data", "new", 10)
  answer_another()
  clients.assert_unheard(write)
  for _ = 1, 100 do -- a wrongly detected outage would be reported right after the write
    assert.is_nil(client._core:outage())
    wait.sleep(0.001)
  end
end)

-- With fail_fast, a call fails as soon as its first attempt is given up.
it("with fail_fast, lock fails after one attempt if etcd falls silent", function()
  holding_one(true)
  local enqueues = client:stats().enqueues
  server:hold_back "Txn"
  local asked = assert(client:lock_async "b")
  answer_another()
  server:hold_back("Txn", -1)
  assert_fails("unavailable", clients.ended(asked))
  assert.equal(1, client:stats().enqueues - enqueues)
end)
