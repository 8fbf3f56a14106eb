-- Tests client:queues: the limits of its time and of the size of answers, and its retries.
-- Needs: one plain member.

-- Regression 087. queues reads one revision of etcd in pages. If etcd compacted this revision
-- meanwhile, queues failed with "invalid". Besides, queues had no time limit: each of its requests
-- had the usual 5 s.
local keep = clients.keep

-- Seconds: the limit of a call without a timeout (5), plus a reserve for a busy machine.
local LIMIT = 5.75

after_each(function() etcd:del_all(prefix) end)

-- Asserts that queues of |client| fails with "unavailable" within its limit.
local function assert_limited(client)
  local from = wait.now()
  assert_fails("unavailable", client:queues())
  assert.is_true(wait.now() - from < LIMIT, wait.now() - from)
end

-- Makes etcd compact up to its last revision before each request of |client| from number |from| to
-- number |to|.
local function compact_before(client, from, to)
  local ask, count = client._run_txn, 0
  function client:_run_txn(...)
    count = count + 1
    if count >= from and count <= to then
      etcd:put(prefix .. "data", tostring(count))
      local _, status, err = etcd:ctl("compact", ("%d"):format(etcd:revision()))
      assert.equal(0, status, err)
    end
    return ask(self, ...)
  end
end

describe("if etcd compacts while it is read,", function()
  it("queues reads again", function()
    local lock = keep(assert(client:lock "a"))
    compact_before(client, 2, 10)
    local found = assert(client:queues())
    assert.same({ "a", lock:token() }, { found[1].name, found[1].entries[1].token })
  end)

  it("queue and break_lock read a multi-lock again", function()
    local lock = keep(assert(client:multi_lock { "a", "b" }))
    compact_before(other, 2, 4)
    assert.is_true(assert(other:queue "b")[1].held)
    compact_before(other, 2, 4)
    assert.is_true(other:break_lock("b", lock:token()))
    assert.same({}, etcd:keys(prefix .. "a/"))
  end)

  it('queues fails with "unavailable" within its limit if it never succeeds', function()
    keep(assert(client:lock "a"))
    compact_before(client, 2, math.huge)
    assert_limited(client)
  end)
end)

it('over a slow connection, queues fails with "unavailable" within its limit', function()
  local proxy = Swallow.start(etcd:endpoint())
  local slow = connect { endpoints = proxy:endpoint(), elsewhere = true }
  for i = 1, 20 do keep(assert(client:multi_lock { "a" .. i, "b" .. i })) end
  assert.equal(40, #assert(slow:queues()))
  proxy:slow(0.3)
  assert_limited(slow)
end)

-- Regression 170. queues read 100 queues in one request, and all values below a name in one. If
-- that answer exceeded 32 MiB, queues took the failure for a compaction, repeated all reads for
-- 5 s, and failed with "no answer in time".
describe("if there are more than 32 MiB below the names,", function()
  local LARGE = ("x"):rep(1200000)

  it("queue and queues return all entries", function()
    for i = 1, 30 do etcd:put_entry(("%sa/%x"):format(prefix, i), LARGE) end
    assert.equal(30, #assert(client:queue "a"))
    local found = assert(client:queues())
    assert.same({ 1, 30, 0 }, { #found, #found[1].entries, found[1].other_keys })
    etcd:revoke_all()
  end)

  it("they read no values of user data", function()
    local lock = keep(assert(client:lock "a"))
    for i = 1, 30 do etcd:put(("%sa/data %d"):format(prefix, i), LARGE) end
    local before = other:stats().calls
    assert.equal(lock:token(), assert(other:queue "a")[1].token)
    local found = assert(other:queues())
    assert.same({ 1, 30 }, { #found[1].entries, found[1].other_keys })
    assert.equal(before + 4, other:stats().calls)
  end)
end)

it("queues reports at once why etcd refuses a read, if not because of a compaction", function()
  keep(assert(client:lock "a"))
  local ask, count = client._run_txn, 0
  function client:_run_txn(txn, ...)
    count = count + 1
    if count == 2 then txn:list("a", "b", 1000000000) end
    return ask(self, txn, ...)
  end
  assert.matches("future revision", assert_fails("invalid", client:queues()))
  assert.equal(2, count)
end)
