-- Tests requests of multi-locks that leave in a batch.
-- Needs: one plain member.

-- Regression 065. The client limited the operations of a batch but not its compares, which etcd
-- limits as well. If a batch had a request of a multi-lock with many names, etcd refused the batch.
-- The client then sent each member of the batch again by itself.

-- The keys are short and not too many, because a request of more than 4 KiB leaves alone.
local PREFIX = "r65/"

scripted_client { prefix = PREFIX, ttl = 60 }

after_each(function() etcd:del_all(PREFIX) end)

-- Takes a multi-lock with |n| names that begin with |stem|.
local function multi(stem, n)
  local names = {}
  for i = 1, n do names[i] = stem .. i end
  return assert(client:multi_lock(names, { owner = stem }))
end

-- While two requests are in flight, starts a guarded write with each of |locks| and |others|
-- acquisitions of other locks, so that these requests leave together. Returns how many requests
-- left in a batch.
local function write_beside(locks, others)
  clients.await_watched(client, locks[1])
  local writes, asked, shared = {}, {}, client:stats().batched
  server:hold_back("Txn", 2)
  for i = 1, 2 do
    asked[i] = assert(client:lock_async("first" .. i))
    wait.eventually(function() return server:held "Txn" == i end, 5, "requests that are out")
  end
  for i, lock in ipairs(locks) do
    writes[i] = clients.start_put(client, lock, PREFIX .. "data" .. i, "next", 10)
  end
  for i = 1, others do asked[i + 2] = assert(client:lock_async("other" .. i)) end
  server:tell "Txn"
  local granted = {}
  for i, one in ipairs(asked) do granted[i] = clients.granted(one) end
  for i, write in ipairs(writes) do
    assert.is_true((write:wait(10)))
    assert.equal("next", (etcd:get(PREFIX .. "data" .. i)))
  end
  shared = client:stats().batched - shared
  for _, lock in ipairs(granted) do assert.is_true(lock:unlock()) end
  return shared
end

-- Asserts that etcd has refused no transaction.
local function assert_none_refused()
  local status, text = server:heard "Txn"
  assert.equal(0, status, text)
end

it("no batch is refused for the marker key write of a multi-lock", function()
  local lock = multi("m", 30)
  clients.await_watched(client, lock)
  server:delay "Txn"
  assert_fails("unavailable", lock:put(PREFIX .. "data1", "late"))
  assert(client:ping())
  assert.is_true(write_beside({ lock }, 100) >= 90)
  assert_none_refused()
  assert.equal(1, server:deliver "Txn")
  assert.equal("next", (etcd:get(PREFIX .. "data1")))
  assert.is_true(lock:unlock())
end)

it("no batch is refused for a guarded write of a multi-lock of 8 names", function()
  local lock = multi("m", 8)
  assert.is_true(write_beside({ lock }, 160) >= 100)
  assert_none_refused()
  assert.is_true(lock:unlock())
end)

it("no guarded write of 5 multi-locks with 30 names each is refused", function()
  local locks = {}
  for i = 1, 5 do locks[i] = multi("m" .. i .. "-", 30) end
  write_beside(locks, 100)
  assert_none_refused()
  for _, lock in ipairs(locks) do assert.is_true(lock:unlock()) end
end)
