-- Tests the handoff: the owners of one client pass a key to each other without a request, until the
-- handoff budget is spent.

-- Starts an acquisition of lock "a" for |owner|.
local function ask(client, owner) return assert(client:lock_async("a", { owner = owner })) end

-- Starts acquisitions for the owners 1 to |count|. Returns the pending locks when at least |count|
-- - 1 of them wait.
local function ask_many(client, count)
  local asked = {}
  for i = 1, count do asked[i] = ask(client, i) end
  wait.eventually(function() return client:stats().waiting >= count - 1 end, 5, "all wait")
  return asked
end

local granted = clients.granted

describe("handoff within a client", function()
  it("follows the order of its 20 waiters, with one key and one token", function()
    local client = connect { handoff_time = 60 }
    local first = assert(client:lock "a")
    local before = client:stats()
    local asked = ask_many(client, 20)
    assert.is_true(first:unlock())
    for i = 1, 20 do
      local lock = granted(asked[i])
      for later = i + 1, 20 do assert.is_false(asked[later]:step()) end
      assert.equal(first:token(), lock:token())
      assert.equal(first:key(), lock:key())
      assert.is_true(lock:check())
      assert.is_true(lock:unlock())
      assert.is_false((lock:held()))
    end
    local after = client:stats()
    assert.equal(before.enqueues, after.enqueues)
    assert.equal(before.deletes + 1, after.deletes)
    assert.equal(before.acquired + 20, after.acquired)
    assert.equal(0, after.held)
    assert.same({}, etcd:keys(prefix))
  end)

  it("stops after 4 holds with handoff = 4, and begins again with the next key", function()
    local client = connect { handoff = 4, handoff_time = 60 }
    local lock = assert(client:lock "a")
    local asked, tokens = ask_many(client, 11), { lock:token() }
    for i = 1, 11 do
      assert.is_true(lock:unlock())
      lock = granted(asked[i])
      tokens[i + 1] = lock:token()
    end
    for i = 2, 12 do assert.equal(i % 4 == 1, tokens[i] > tokens[i - 1], "hold " .. i) end
    assert.is_true(lock:unlock())
  end)

  it("lets another client have the lock after handoff = 4 holds", function()
    local client = connect { handoff = 4, handoff_time = 60 }
    local lock = assert(client:lock "a")
    local asked = ask_many(client, 20)
    local theirs = ask(other, "other")
    etcd:await_keys(prefix, 2)
    for i = 1, 3 do
      assert.is_true(lock:unlock())
      assert.equal(lock:token(), granted(asked[i]):token())
      lock = granted(asked[i])
      assert.is_false(theirs:step())
    end
    assert.is_true(lock:unlock())
    local their_lock = granted(theirs)
    assert.is_false(asked[4]:step())
    assert.is_true(their_lock:token() > lock:token())
    assert.is_true(their_lock:unlock())
    assert.is_true(granted(asked[4]):token() > their_lock:token())
  end)

  it("lets another client have the lock after the default handoff_time of 0.05 s", function()
    local client = connect { handoff = 1000 }
    local lock = assert(client:lock "a")
    local asked = ask_many(client, 20)
    local theirs = ask(other, "other")
    etcd:await_keys(prefix, 2)
    local count = 0
    repeat
      wait.sleep(0.02)
      assert.is_true(lock:unlock())
      count = count + 1
      wait.eventually(function()
        lock = asked[count]:step()
        return lock or theirs:step()
      end, 10, "the next one")
    until not lock
    assert.is_true(count <= 3, count .. " holds")
    assert.is_true(granted(theirs):unlock())
  end)

  it("is disabled by handoff = false: each hold has a new token", function()
    local client = connect { handoff = false }
    local last = assert(client:lock "a")
    local asked = ask_many(client, 5)
    for i = 1, 5 do
      assert.is_true(last:unlock())
      local lock = granted(asked[i])
      assert.is_true(lock:token() > last:token())
      last = lock
    end
    assert.is_true(last:unlock())
  end)

  -- Regression 219. The next key was put only when the delete was answered.
  it("deletes a key and puts the next one in one transaction when the budget is spent", function()
    local client = connect { handoff = 1 }
    local last = assert(client:lock "a")
    local asked = ask_many(client, 5)
    local before = client:stats()
    for i = 1, 5 do
      assert.is_true(last:unlock())
      last = granted(asked[i])
    end
    assert.is_true(last:unlock())
    local after = client:stats()
    assert.equal(5, after.enqueues - before.enqueues)
    assert.equal(6, after.deletes - before.deletes)
    assert.equal(5, after.batched - before.batched)
    assert.equal(0, after.looks - before.looks)
  end)
end)

describe("the next owner of a client", function()
  -- For each end of the previous hold: the options of its lock, and a function that ends it.
  local ENDS = {
    { "max_hold ended the previous hold", { max_hold = 0.1 }, function() end },
    { "the previous lock leaked", {}, function(lock)
      lock[1] = nil
      collectgarbage()
      collectgarbage()
    end },
    { "the previous hold was lost", {}, function(lock)
      assert(client:break_lock("a", lock[1]:token()))
      wait.eventually(function() return not lock[1]:held() end)
    end },
  }

  for _, row in ipairs(ENDS) do
    local what, opts, end_hold = (table.unpack or unpack)(row)
    it("gets a new token after " .. what, function()
      client_options { handoff_time = 60, log = function() end }
      local lock = { assert(client:lock("a", opts)) }
      local token, asked = lock[1]:token(), ask(client, "next")
      wait.eventually(function() return client:stats().waiting == 1 end)
      end_hold(lock)
      local heir = granted(asked)
      assert.is_true(heir:token() > token)
      assert.is_true(heir:check())
      if lock[1] then assert_fails("lost", lock[1]:unlock()) end
    end)
  end
end)

-- A plain lock orders its guarded writes by its own key, and a write lock by a marker key.
for _, mode in ipairs { "lock", "write_lock" } do
  it("a late put of a " .. mode .. " does not overwrite a put after its handoff", function()
    local client = connect { endpoints = server:endpoint(), handoff_time = 60, ttl = 60 }
    local lock = assert(client[mode](client, "a"))
    local asked = assert(client[mode .. "_async"](client, "a", { owner = "next" }))
    clients.await_watched(client, lock)
    server:delay "Txn"
    assert_fails("unavailable", lock:put(prefix .. "data", "late"))
    assert.is_true(lock:put(prefix .. "data", "one"))
    assert.is_true(lock:unlock())
    local heir = granted(asked)
    assert.equal(lock:token(), heir:token())
    local calls = client:stats().calls
    assert.is_true(heir:put(prefix .. "data", "two"))
    assert.equal(calls + 1, client:stats().calls)
    server:deliver "Txn"
    assert.equal("two", (etcd:get(prefix .. "data")))
  end)
end

it("puts in flight or queued at unlock have no effect", function()
  for _, seconds in ipairs { 0.5, 5 } do
    local client = connect { endpoints = server:endpoint(), handoff_time = 60, ttl = 60 }
    local lock = assert(client:write_lock "a")
    clients.await_watched(client, lock)
    local writes = {}
    server:delay "Txn"
    for i = 1, 5 do -- the writes of one hold are sent one by one
      writes[i] = clients.start_put(client, lock, prefix .. "data", "write " .. i, seconds)
    end
    assert.is_true(lock:unlock())
    for i = 1, 5 do assert.is_false((writes[i]:wait(10))) end
    assert.equal(1, server:deliver "Txn")
    assert.is_nil((etcd:get(prefix .. "data")))
    assert.same({}, etcd:keys(prefix))
  end
end)

it("a hold that got its key by handoff is lost if the key was deleted before", function()
  local client = connect { handoff_time = 60 }
  local lock = assert(client:lock "a")
  local asked = ask_many(client, 2)
  etcd:del(lock:key())
  lock:unlock() -- returns "lost" if the client knows of the deletion by now
  local heir = granted(asked[1])
  if heir:token() == lock:token() then
    assert.is_truthy(heir:wait_lost(10))
    assert_fails("lost", heir:unlock())
    heir = granted(asked[2])
  end
  assert.is_true(heir:token() > lock:token())
  assert.is_true(heir:check())
end)

it('connect returns "invalid" for a bad handoff or handoff_time and states the range', function()
  for _, value in ipairs { 0, 1.5, -1, 1e9, 0 / 0 } do
    local message = assert_fails("invalid", etcdlock.connect { handoff = value })
    assert.matches("handoff", message, 1, true)
    assert.matches("false, or a whole number of holds from 1 to", message, 1, true)
  end
  local message = assert_fails("invalid", etcdlock.connect { handoff_time = -1 })
  assert.matches("handoff_time = -1, wanted 0 to 60 seconds", message, 1, true)
  assert.has_error(function() etcdlock.connect { handoff = "yes" } end)
end)
