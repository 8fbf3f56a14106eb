-- Tests holders that die, and holders that are stopped (SIGSTOP) for longer or shorter than
-- their TTL.

local RUNS = 20
-- TTLs in seconds. TTL: of holders that die, or are stopped for longer than their TTL. LONGER: of
-- holders that are stopped for less than their TTL. LONG: of waiters that must not lose their
-- lease.
local TTL, LONGER, LONG = wait.ttl(2), wait.ttl(6), wait.ttl(10)

local function start_all(count, ttl)
  return { remote.start({ endpoints = suite.endpoints(), prefix = prefix, ttl = ttl }, count) }
end

-- Starts |count| holders, each of a name that begins with |kind|; returns them and their tokens.
local function holders(kind, count, ttl)
  local list, tokens = start_all(count, ttl), {}
  for i, child in ipairs(list) do tokens[i] = remote.take(child, kind .. i) end
  return list, tokens
end

-- Starts a waiter behind each of the |count| holders of |kind|; returns the waiters.
local function successors(kind, count, ttl)
  local list = start_all(count, ttl)
  for i, child in ipairs(list) do
    -- returns the token, and the time
    remote.send(child, ([[
      lock = assert(client:lock '%s')
      return ('%%.0f'):format(lock:token()), require('luv').hrtime() / 1e9
    ]]):format(kind .. i))
  end
  suite.etcd():await_keys(prefix .. kind, 2 * count, 10)
  return list
end

local function end_all(children)
  for _, child in ipairs(children) do child:finish() end
  for _, child in ipairs(children) do child:wait() end
end

describe("a holder that dies", function()
  it("by SIGKILL is followed by the next waiter within TTL + 1 s, in 20 of 20 runs", function()
    local list, tokens = holders("killed", RUNS, TTL)
    local next_ones, killed = successors("killed", RUNS, TTL), {}
    for i, child in ipairs(list) do -- each at a different time after its last renewal
      killed[i] = wait.now()
      child:kill "sigkill"
      wait.sleep(0.03)
    end
    for i, child in ipairs(next_ones) do
      local results = remote.answer_of(child, TTL + 8)
      local took = tonumber(results[2]) - killed[i]
      assert.is_true(took <= TTL + 1 + wait.SLACK, ("%d: %s s"):format(i, took))
      assert.is_true(tonumber(results[1]) > tokens[i])
    end
    end_all(list)
    end_all(next_ones)
  end)
end)

describe("a holder that is stopped past its TTL", function()
  -- The calls, and their first results.
  local CALLS = {
    { "lock:held()", "false" }, { ("lock:put('%sdata', 'late')"):format(prefix), "nil" },
    { "lock:held()", "false" }, { "lock:check()", "nil" }, { "lock:unlock()", "nil" },
  }

  it('gets "lost" from its first call after it resumes, in 20 of 20 runs', function()
    local late, tokens = holders("stopped", RUNS, TTL)
    -- The waiters have a long TTL, so that only the leases of the stopped holders expire.
    local next_ones, new_tokens = successors("stopped", RUNS, LONG), {}
    for _, child in ipairs(late) do child:kill "sigstop" end
    for i, child in ipairs(next_ones) do
      new_tokens[i] = tonumber(remote.answer_of(child, TTL + 4)[1])
      assert.is_true(new_tokens[i] > tokens[i])
    end
    -- The test sends the calls while the holders are stopped, so that no other call is the first.
    for _, child in ipairs(late) do
      for _, call in ipairs(CALLS) do remote.send(child, "return " .. call[1]) end
    end
    for _, child in ipairs(late) do child:kill "sigcont" end
    for i, child in ipairs(late) do
      for _, call in ipairs(CALLS) do
        local results = remote.answer_of(child)
        assert.same({ call[2], "lost" }, { results[1], results[#results] }, call[1] .. " of " .. i)
      end
    end
    -- None of these calls has changed etcd or the holds of the new holders.
    assert.same({}, suite.etcd():keys(prefix .. "data"))
    for i, child in ipairs(next_ones) do
      remote.assert_held(child, new_tokens[i])
      remote.release(child)
    end
    -- After the new holders unlock, the old ones can take the locks again, with a new token.
    for i, child in ipairs(late) do
      local token = remote.take(child, "stopped" .. i)
      assert.is_true(token > new_tokens[i])
      remote.assert_held(child, token)
    end
    end_all(late)
    end_all(next_ones)
  end)
end)

describe("a holder that is stopped for less than its TTL", function()
  it("keeps its hold and its token for at least one more TTL", function()
    local list, tokens = holders("short", RUNS, LONGER)
    for _, child in ipairs(list) do child:kill "sigstop" end
    wait.sleep(1)
    for _, child in ipairs(list) do
      remote.send(child, "return (lock:held())")
      child:kill "sigcont"
    end
    for _, child in ipairs(list) do assert.same({ "true" }, remote.answer_of(child)) end
    -- The sleep is longer than the lease lives if it is not renewed again.
    wait.sleep(LONGER + 0.2)
    for i, child in ipairs(list) do
      remote.assert_held(child, tokens[i])
      remote.release(child)
    end
    end_all(list)
  end)
end)
