-- Tests the option linger: the client keeps the key after the last unlock, acquires it again
-- without a request, and deletes it as soon as another client queues.

-- Options with a linger, in seconds, that is longer than any test.
local LONG = { linger = 60 }

-- Acquires and unlocks lock "a" with |opts| (nil: LONG), so that it lingers; returns the handle.
local function leave(opts)
  local lock = assert(client:lock("a", opts or LONG))
  assert.is_true(lock:unlock())
  return lock
end

local function keys() return etcd:keys(prefix .. "a/") end

-- Returns how many requests about locks the client has sent, without reads and watches.
local function asked()
  local stats = client:stats()
  return stats.enqueues + stats.tries + stats.deletes + stats.calls
end

describe("a lingering lock", function()
  it("is acquired 1,000 times with the same token and without a request", function()
    local first = leave()
    local before, last = asked(), first
    for _ = 1, 1000 do
      local lock = assert(client:lock("a", LONG))
      assert.is_true((lock:held()))
      assert.is_false((last:held()))
      assert.equal(first:token(), lock:token())
      assert.equal(1, lock:count())
      assert.is_true(lock:unlock())
      last = lock
    end
    assert.equal(before, asked())
    assert.equal(1001, client:stats().acquired)
    assert.same({ first:key() }, keys())
    assert_fails("not_held", first:unlock())
    assert.same({ false, "not_held" }, { first:held() })
  end)

  it("is acquired without a request by any acquiring call and any owner of the client", function()
    leave()
    local before = asked()
    local lock = assert(client:try_lock("a", { owner = "somebody", linger = 60 }))
    assert_fails("locked", client:try_lock("a", { owner = "somebody else" }))
    assert.is_true(lock:unlock())
    assert.is_true(client:with_lock("a", { owner = 1, linger = 60 }, function() end))
    lock = clients.granted(assert(client:lock_async("a", { owner = 2, linger = 60 })))
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
    assert.equal(before + 1, asked())
    -- Without the option, the last unlock deletes the key.
    assert.is_true(assert(client:lock "a"):unlock())
    assert.same({}, keys())
  end)

  it("is granted to an acquisition that its owner started before the unlock", function()
    local lock = assert(client:lock("a", LONG))
    local pending = assert(client:lock_async("a", LONG))
    assert.is_true(lock:unlock())
    local before = asked()
    assert.equal(lock:token(), clients.granted(pending):token())
    assert.equal(before, asked())
  end)

  it("is freed in memory after its linger time, if the name is not used again", function()
    local cores = setmetatable({}, { __mode = "k" })
    for i = 1, 200 do
      local lock = assert(client:lock("a/" .. i, { linger = 0.02 }))
      cores[lock._core] = true
      assert.is_true(lock:unlock())
    end
    etcd:await_keys(prefix .. "a/", 0)
    leave()
    collectgarbage()
    collectgarbage()
    local count = 0
    for _ in pairs(cores) do count = count + 1 end
    assert.is_true(count < 100, count)
  end)

  it("is granted at once to another client that queues for it", function()
    for _ = 1, 3 do
      local lock = leave()
      local from = wait.now()
      local theirs = assert(other:lock("a", { timeout = 30 }))
      assert.is_true(wait.now() - from < wait.SLACK)
      assert.is_true(theirs:token() > lock:token())
      assert.equal(1, #keys())
      assert.is_true(theirs:unlock())
    end
  end)

  it("is granted at once to another client that has waited since before the unlock", function()
    local lock = assert(client:lock("a", LONG))
    local theirs = assert(other:lock_async "a")
    etcd:await_keys(prefix .. "a/", 2)
    wait.sleep(0.1) -- the client may know of the waiter by now
    assert.is_true(lock:unlock())
    assert.is_true(clients.granted(theirs):check())
    assert.equal(1, #keys())
  end)

  it("is deleted after the linger time that follows its last unlock", function()
    leave { linger = 0.3 }
    local lock = assert(client:lock("a", { linger = 2 }))
    wait.sleep(0.8)
    clients.await_watched(client, lock) -- a key that is not watched yet does not always linger
    local core = lock._core
    assert.is_true(lock:unlock())
    assert.equal(1, #keys())
    etcd:await_keys(prefix .. "a/", 0)
    assert.is_true(core:wait_released(5))
    assert.equal(0, client:stats().lost)
    local again = assert(client:lock("a", LONG))
    assert.is_true(again:token() > lock:token())
  end)

  it("that was acquired again is lost at max_hold and does not linger again", function()
    leave()
    local lock = assert(client:lock("a", { linger = 60, max_hold = 0.1 }))
    assert.equal("max_hold", lock:wait_lost(10))
    assert_fails("lost", lock:unlock())
    etcd:await_keys(prefix .. "a/", 0)
  end)

  it("that was acquired again calls the on_lost handler of its current holder only", function()
    local first = leave()
    local told = 0
    local lock = assert(client:lock("a", LONG))
    lock:on_lost(function() told = told + 1 end)
    assert_fails("not_held", first:on_lost(function() told = told + 100 end))
    etcd:del(lock:key())
    assert.equal("deleted", lock:wait_lost(10))
    assert.is_false((lock:held()))
    assert.same({ false, "not_held" }, { first:held() })
    assert.equal(1, told)
  end)

  it("is acquired with a new token after its key was deleted", function()
    local lock = leave()
    etcd:del(lock:key())
    local again = wait.eventually(function() -- until the watch has reported the deletion
      local one = assert(client:lock("a", LONG))
      if one:token() > lock:token() then return one end
      one:unlock()
    end, 5, "the loss of the key")
    assert.is_true(again:check())
  end)

  it('is not granted past its hold deadline: with etcd paused, lock gets "unavailable"', function()
    local own = suite.start()
    local client = connect { endpoints = own:endpoints(), ttl = 2 }
    leave()
    own:pause()
    wait.eventually(function() return not client:alive() end, 5, "the end of the claim")
    assert_fails("unavailable", client:lock("a", { linger = 60, timeout = 0.2 }))
    own:resume()
  end)

  it("is deleted by close of its client", function()
    leave()
    client:close()
    assert.same({}, keys())
    assert_fails("closed", client:lock("a", LONG))
  end)
end)

it('lock returns "invalid" for a linger time of 0 or less or above 86400 seconds', function()
  for _, seconds in ipairs { 0, -1, 86401, math.huge, 0 / 0 } do
    local message = assert_fails("invalid", client:lock("a", { linger = seconds }))
    assert.matches("linger", message, 1, true)
    assert.matches("more than 0 seconds, up to 86400", message, 1, true)
  end
  assert.has_error(function() client:lock("a", { linger = "long" }) end)
end)

-- Regression 046. A lock was released with linger, and a later hold took over its key. expire of
-- the released lock ended the later hold.
it("expire after unlock returns not_held and does not end a later hold", function()
  local first, second = leave(), assert(client:lock("a", LONG))
  assert_fails("not_held", first:expire(0.01))
  assert_fails("timeout", second:wait_lost(0.1))
  assert.is_true(second:expire(0.01))
  assert.equal("max_hold", second:wait_lost(5))
end)

-- Regression 048. The handle of a lock that was released with linger still referred to the lock of
-- the core. If a later hold took over the key and leaked, the lock stayed held for as long as the
-- program kept the first handle.
it("a leaked lock is released while an earlier handle is kept", function()
  local first = assert(client:lock("a", LONG))
  local token, key, lease = first:token(), first:key(), first:lease()
  assert.is_true(first:unlock())
  assert.equal(token, (function() return assert(client:lock("a", LONG)):token() end)())
  local other = assert(client:lock("a", { owner = "somebody else", timeout = 5 }))
  assert.is_true(other:token() > token)
  assert.same({ token, key, lease }, { first:token(), first:key(), first:lease() })
  assert.matches("%(not_held%)$", tostring(first))
end)

-- Regression 051. If a hold took over a lingering key and had another linger time, the key still
-- lingered for the time of the first hold.

-- Takes the lock and releases it with a linger of |seconds|; returns the token.
local function leave_for(seconds)
  local lock = assert(client:lock("a", { linger = seconds }))
  -- A key that is not watched yet does not always linger.
  clients.await_watched(client, lock)
  assert.is_true(lock:unlock())
  return lock:token()
end

it("a shorter linger replaces the longer one of the previous hold", function()
  assert.equal(leave_for(60), leave_for(0.1))
  etcd:await_keys(prefix .. "a/", 0, 5)
end)

it("a longer linger replaces the shorter one of the previous hold", function()
  leave_for(2)
  leave_for(60)
  local last = leave_for(60)
  wait.sleep(2.5)
  assert.equal(last, leave_for(60))
end)

-- Regression 066. While a client's own key lingered, other owners of this client got the lock only
-- after the linger time.
it("a lingering lock is granted to the owners that wait, in their order", function()
  local first, pending = assert(client:lock("a", { linger = 60, owner = 0 })), {}
  for i = 1, 5 do pending[i] = assert(client:lock_async("a", { linger = 60, owner = i })) end
  assert.is_true(first:unlock())
  for i = 1, 5 do
    assert.is_true(clients.granted(pending[i]):unlock())
    -- Another try must come after the owners that wait.
    local again = client:try_lock("a", LONG)
    if i < 5 then assert.is_nil(again) else assert.is_true(again:unlock()) end
  end
end)

-- Regression 068. A hold with a short linger woke the process hundreds of times per second. stats
-- counted a key that only lingered as held. A key with a lock delay could linger: after a crash it
-- blocked others, although it had been unlocked.
it("a hold with a linger of 1 ms does not wake the process", function()
  local lock = assert(client:lock("a", { linger = 0.001 }))
  clients.await_watched(client, lock)
  -- Returns how often the threads of this process have gone to sleep.
  local function sleeps()
    local n = 0
    for _, status in pairs(tasks(core.pid(), "status")) do
      n = n + status:match "\nvoluntary_ctxt_switches:%s*(%d+)"
    end
    return n
  end
  local before = sleeps()
  wait.sleep(1)
  assert.is_true(sleeps() - before < 200, sleeps() - before)
  assert.is_true(lock:unlock())
end)
