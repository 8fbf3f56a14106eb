-- Tests until when a hold is proven (the hold deadline), and how a hold ends if etcd answers late,
-- does not answer some requests, or reports no events.
-- Needs: one plain member.

local UNAVAILABLE = error_rows.STATUS.UNAVAILABLE

describe("the hold deadline", function()
  -- Seconds. The hold deadline counts from when the client sent the lease request or a keepalive.
  -- The tests know when that arrived, which is a little later. A deadline that counted from the
  -- answer would be |LATE| seconds later.
  local TTL, MARGIN, LATE, ROUNDING = 8, 0.8, 0.45, 0.005
  local slow, client

  before_each(function()
    slow = Swallow.start(server:endpoint())
    slow:slow(LATE)
    client = connect { endpoints = slow:endpoint(), ttl = TTL }
  end)

  -- Returns the hold deadline of |lock|, by the clock of wait.now, or a little earlier.
  local function deadline_of(lock)
    local now = wait.now()
    return now + lock:remaining()
  end

  it("of a new hold counts from when the lease was requested", function()
    local lock = assert(client:lock("a", { timeout = 20 }))
    local most = server:arrived "LeaseGrant" + TTL - MARGIN + ROUNDING
    assert.is_true(deadline_of(lock) <= most, deadline_of(lock) - most)
    assert.is_true(lock:unlock())
  end)

  it("of a renewed hold counts from when the keepalive was sent, amid other requests", function()
    local lock = assert(client:lock("a", { timeout = 20 }))
    local asked, renewals, latest = {}, 0, deadline_of(lock)
    local stop = wait.now() + TTL
    repeat
      for i = 1, 5 do
        asked[i] = asked[i] or assert(client:lock_async("beside" .. i, { owner = i }))
        local other = asked[i]:step()
        if other then asked[i] = other._core:release() and nil end
      end
      local deadline = deadline_of(lock)
      if deadline > latest + ROUNDING then
        -- just renewed: the next keepalive is not sent yet
        local late = deadline - (server:arrived "LeaseKeepAlive" + TTL - MARGIN)
        assert.is_true(late <= ROUNDING, late .. " s too late")
        renewals = renewals + 1
      end
      latest = math.max(latest, deadline)
      wait.sleep(0.005)
    until wait.now() > stop
    for _, pending_one in pairs(asked) do pending_one:cancel() end
    assert.is_true(renewals > 1, "it was not renewed")
    assert.is_true(lock:unlock())
  end)
end)

describe("a client", function()
  local client

  -- Lets the server forward all calls of |method|, and drop etcd's answers.
  local function mute(method) server:answer(method, "never", UNAVAILABLE) end

  it("that cannot read a held key ends the hold, names the cause and frees the lock", function()
    client = connect { endpoints = server:endpoint(), ttl = 3 }
    local function lose()
      local lock, lost = assert(client:lock "a"), client:stats().lost
      -- Keepalives still succeed, but no read of the key does.
      server:answer("Txn", "before", UNAVAILABLE, "etcdserver: no leader")
      -- The test calls no method of the lock here, because such a call would find the loss by its
      -- clock.
      wait.eventually(function() return client:stats().lost == lost + 1 end, 5, "the loss")
      server:pass()
      local next_one = connect { endpoints = etcd:endpoint() }
      assert(next_one:lock("a", { timeout = 5 })):unlock()
      assert.is_true(client:alive())
      assert(client:lock("b", { timeout = 5 })):unlock()
      assert.equal("expired", lock:wait_lost(0))
      return assert_fails("lost", lock:check())
    end
    -- If the machine stalled, the message names the stall instead. The test then tries again, at
    -- most five times in all.
    local rounds, message = 0
    repeat
      message, rounds = lose(), rounds + 1
    until rounds == 5
      or not message:find "this process did not run" and not message:find "a keepalive was not"
    assert.matches("no leader", message, 1, true)
  end)

  it("grants no lock past its hold deadline while keepalives are unanswered", function()
    local TTL = 5
    mute "LeaseKeepAlive"
    client = connect { endpoints = server:endpoint(), ttl = TTL }
    local deadline, granted, unclaimed = wait.now() + TTL + 2, 0, 0
    repeat
      local lock = client:try_lock "a"
      if lock and lock:held() then
        granted = granted + 1
      elseif lock then
        unclaimed = unclaimed + 1
      end
      if lock then lock:unlock() end
    until wait.now() > deadline
    assert.is_true(granted > 10)
    -- A hold deadline may pass between try_lock and held, once for each lease.
    assert.is_true(unclaimed <= 3, unclaimed)
  end)

  it("finds the deletion of any held key by its reads if its watches get no answer", function()
    mute "Watch"
    client = connect { endpoints = server:endpoint(), ttl = 5 }
    local locks = {}
    for i = 1, 3 do locks[i] = assert(client:lock("a" .. i)) end
    for i = 3, 2, -1 do
      etcd:del(locks[i]:key())
      assert.equal("deleted", locks[i]:wait_lost(10))
      assert.is_true(locks[1]:check())
    end
    assert.is_true(locks[1]:unlock())
  end)

  it('returns "timeout" to an owner that waits for another owner while etcd fails', function()
    client = connect { endpoints = server:endpoint(), ttl = 5 }
    local lock = assert(client:lock "a")
    server:answer("Txn", "before", UNAVAILABLE, "etcdserver: no leader")
    wait.eventually(function() return client:stats().failed_attempts > 0 end, 3, "a failed probe")
    local asked = assert(client:lock_async("a", { owner = "next", timeout = 0.2 }))
    assert_fails("timeout", clients.ended(asked))
    server:pass()
    wait.eventually(function() return client:lock("b", { timeout = 1 }) end):unlock()
    assert.is_true(lock:unlock())
  end)

  it('ends a hold with the reason "deleted" when a put finds its key missing', function()
    mute "Watch"
    client = connect { endpoints = server:endpoint(), ttl = 60 }
    local lock = assert(client:lock "a")
    etcd:del(lock:key())
    assert.is_true(lock:held())
    assert_fails("lost", lock:put(prefix .. "data", "late"))
    wait.eventually(function() return not lock:held() end, 2, "the loss")
    assert.equal("deleted", lock:wait_lost(0))
  end)
end)
