-- Tests a silent member: its connections stay open and it accepts all data, but never answers. A
-- machine that hangs or a firewall that drops packets has this effect.
-- Needs: one plain member.

-- Seconds within which a client gets a lock although its member has fallen silent. It needs about
-- half of this time.
local TIMEOUT = 5

local etcd, silent

client_options(function()
  return { endpoints = { silent:endpoint(), etcd:endpoint(2), etcd:endpoint(3) } }
end)

setup(function()
  etcd = Etcd.start { members = 3 }
  silent = Swallow.start(etcd:endpoint(1))
end)

before_each(function() silent:forward() end)

describe("a client", function()
  it("gets a lock within 5 s if its first member never answers", function()
    silent:swallow()
    assert.is_true(assert(connect():lock("a", { timeout = TIMEOUT })):unlock())
    assert.is_true(silent:forward() > 0, "nobody has asked it")
  end)

  -- Regression 303. The time for an answer doubled while members were left that had not been tried:
  -- behind three members that hang, the first lock took 7.2 s, and behind four 16.8 s.
  it("gets a lock within 6 s if its first three endpoints hang", function()
    local hung = {}
    for i = 1, 3 do
      hung[i] = Swallow.start(etcd:endpoint(1))
      hung[i]:swallow()
    end
    local client = connect {
      endpoints = { hung[1]:endpoint(), hung[2]:endpoint(), hung[3]:endpoint(), etcd:endpoint(2) },
    }
    assert.is_true(assert(client:lock("a", { timeout = 6 })):unlock())
  end)

  it("gets a lock within 5 s and keeps its hold if its member falls silent", function()
    local client = connect { ttl = 2 * TIMEOUT }
    local lock = assert(client:lock "held")
    silent:swallow()
    assert.is_true(assert(client:lock("a", { timeout = TIMEOUT })):unlock())
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
  end)

  -- Regression 232. If only keepalives had used a connection, the client took its age for the time
  -- that it had taken to open. So a silent member was left only after twice that age.
  it("leaves a silent member in time, although only keepalives have used its connection", function()
    local second = Swallow.start(etcd:endpoint(2))
    local client = connect { endpoints = { silent:endpoint(), second:endpoint() }, ttl = 6 }
    assert(client:lock "a"):unlock()
    local function await_keepalive()
      local before = client:stats().keepalives
      wait.eventually(function() return client:stats().keepalives > before end)
    end
    await_keepalive()
    silent:cut()
    for _ = 1, 3 do await_keepalive() end
    second:swallow()
    -- Without a request, the member would be left after the next keepalive, which takes longer.
    assert(client:lock("a", { timeout = 3 }))
    assert.is_true(second:forward() > 0, "nobody has asked it")
  end)

  it("that only holds keeps its hold for longer than the TTL if its member falls silent", function()
    local lock = assert(connect { ttl = TIMEOUT }:lock "held")
    silent:swallow()
    -- Without a proof from another member, the hold would end within this time.
    local deadline = wait.now() + TIMEOUT + 1
    while wait.now() < deadline do
      assert.is_true(lock:held())
      wait.sleep(0.05)
    end
    assert.is_true(lock:unlock())
  end)

  -- Regression 304. The time that the process stood still counted as the time of an answer. So a
  -- member that hung was left only after that time.
  it("that stood still for 6 s leaves a silent member within 4 s", function()
    local child = remote.start { endpoints = { silent:endpoint(), etcd:endpoint(2) }, ttl = 60 }
    remote.ask(child, "return client:ping()")
    silent:slow(0.3)
    -- The time limit of ping is over when the process goes on, perhaps before it reads the answer.
    wait.eventually(function()
      remote.send(child, "return client:ping()")
      wait.sleep(0.1)
      child:kill "sigstop"
      wait.sleep(6)
      child:kill "sigcont"
      return tonumber(remote.answer_of(child, 5)[1])
    end, 30, "an answer after the standstill")
    silent:swallow()
    local results = remote.ask(child, "return client:lock('a', { timeout = 4 })", 10)
    assert.matches("lock \"a\"", results[1], 1, true)
    silent:slow(0)
  end)

  -- The load lasts longer than a member may be silent, and a request is in flight all the time.
  -- Each lock request leaves when the previous one is answered, while a ping is in flight.
  it("does not give up a loaded member that answers each request after 0.2 s", function()
    finally(function() silent:slow(0) end)
    wait.eventually(function()
      silent:slow(0)
      local client = connect { endpoints = silent:endpoint() }
      assert(client:lock("first", { timeout = TIMEOUT }))
      local before = client:stats().failed_attempts
      silent:slow(0.2)
      local asked, longest = { assert(client:lock_async "busy1") }, 0
      wait.sleep(0.1)
      local deadline = wait.now() + 2.5
      repeat
        asked[#asked + 1] = assert(client:lock_async("busy" .. #asked + 1))
        longest = math.max(longest, (assert(client:ping())))
      until wait.now() > deadline
      local failed = client:stats().failed_attempts - before
      client:close()
      local is_believed = #asked > 5 and failed == 0
      -- If an attempt failed, etcd itself must have been slow.
      assert.is_true(is_believed or longest > 0.35, failed .. " failed, of " .. #asked)
      return is_believed
    end, 5, "an etcd that always answers")
  end)

  it("that waits at a silent member is granted the lock within 4 s of the unlock", function()
    local holder = assert(connect { endpoints = etcd:endpoint(2) }:lock "a")
    local pending = assert(connect { ttl = TIMEOUT }:lock_async "a")
    etcd:await_keys(prefix .. "a", 2)
    silent:swallow()
    wait.sleep(TIMEOUT / 2)
    assert.is_false((pending:step()))
    assert.is_true(holder:unlock())
    -- The watch ends this wait. The next periodic read would come later.
    local from = wait.now()
    assert(clients.granted(pending))
    assert.is_true(wait.now() - from < 4)
  end)

  for _, count in ipairs { 1, 8 } do
    it(("moves %d pending requests off a silent member after one failure each"):format(
      count), function()
      wait.eventually(function()
        silent:forward()
        local client = connect { endpoints = { silent:endpoint(), etcd:endpoint(2) } }
        local held, asked = assert(client:lock("held", { timeout = TIMEOUT })), {}
        wait.eventually(function() return client:stats().watches == 1 end)
        assert.is_true(held:check())
        local before, from = client:stats().failed_attempts, wait.now()
        silent:swallow()
        for i = 1, count do asked[i] = assert(client:lock_async("a" .. i, { owner = i })) end
        for i = 1, count do
          wait.eventually(function() return asked[i]:dirty() end, 1, "all are asked again")
        end
        local took = wait.now() - from
        -- Each request fails once. A background request of the client may fail in addition.
        local failed = client:stats().failed_attempts - before
        local is_once = failed == count or failed == count + 1
        -- More requests may fail only if the other member was silent as well, for two attempts.
        assert.is_true(is_once or took > 2 * 0.6, failed .. " failed")
        for i = 1, count do assert(asked[i]:step()):unlock() end
        assert.is_true(held:check())
        assert.is_true(held:unlock())
        client:close()
        -- This is less time than the requests would need if each waited for its own timeout.
        return is_once and took < 2.6, took
      end, 5, "another member that always answers")
    end)
  end

  it("does not use a silent member while its first one answers, even after lost leases", function()
    wait.eventually(function()
      local before, has_left = silent:swallow(), false
      local client = connect {
        endpoints = { etcd:endpoint(2), silent:endpoint() }, ttl = 3,
        log = function(event) has_left = has_left or event.event == "failover" end,
      }
      for i = 1, 3 do
        local lock = assert(client:lock("a" .. i, { timeout = TIMEOUT }))
        local renewals = client:stats().keepalives
        wait.eventually(function() return client:stats().keepalives > renewals + 1 end)
        etcd:revoke(lock:lease())
        assert.is_string(lock:wait_lost(TIMEOUT))
      end
      local failed = client:stats().failed_attempts
      client:close()
      local is_spared = silent:forward() == before
      -- The client may ask the silent member only if its first member failed to answer in time.
      assert.is_true(is_spared or has_left or failed > 0, "it was asked")
      return is_spared
    end, 5, "an own member that always answers")
  end)

  it("leaves no key after try_lock and unlock at a silent member", function()
    local client = connect { ttl = 10 }
    local lock = assert(client:lock "a")
    silent:swallow()
    local tried = client:try_lock "b" -- succeeds or fails within 2 s
    if tried then tried:unlock() end
    local ok, message, code = lock:unlock()
    assert.is_true(ok or code == "unavailable", message)
    etcd:await_keys(prefix, 0, TIMEOUT)
  end)

  it('gets "unavailable" at its timeout if its only member is silent, and recovers', function()
    local client = connect { endpoints = silent:endpoint() }
    local lock = assert(client:lock "a")
    silent:swallow()
    local from = wait.now()
    local message = assert_fails("unavailable", client:lock("b", { timeout = 2 }))
    assert.matches(silent.address, message, 1, true)
    assert.is_true(wait.now() - from < 2 + wait.SLACK)
    silent:forward()
    assert(client:lock("b", { timeout = TIMEOUT }))
    assert.is_true(lock:check())
  end)
end)
