-- Tests holders that die, and holders that are stopped (SIGSTOP) for longer or shorter than
-- their TTL.

local RUNS = 20
-- TTLs in seconds. TTL: of holders that die, or are stopped for longer than their TTL. LONGER: of
-- holders that are stopped for less than their TTL. LONG: of waiters that must not lose their
-- lease.
local TTL, LONGER, LONG = wait.ttl(2), wait.ttl(6), wait.ttl(10)

-- A program that takes the lock and then carries out one command for each line that it reads.
local HOLDER = [[
  local endpoint, prefix, name, ttl = ...
  local client = assert(require("etcdlock").connect {
    endpoints = endpoint, prefix = prefix, ttl = tonumber(ttl),
  })
  print "ready"
  io.read()
  local lock = assert(client:lock(name))
  print(("held %.0f %.9f"):format(lock:token(), require("luv").hrtime() / 1e9))
  local words = {}
  function words.held()
    local held, code = lock:held()
    print("answer " .. tostring(held) .. " " .. tostring(not held and code))
  end
  function words.put()
    local ok, _, code = lock:put(prefix .. "data/" .. name, "of a late holder")
    print("answer " .. tostring(ok) .. " " .. tostring(code))
  end
  function words.check()
    local held, _, code = lock:check()
    print("answer " .. tostring(held) .. " " .. tostring(not held and code or nil))
  end
  function words.unlock()
    local ok, _, code = lock:unlock()
    print("answer " .. tostring(ok) .. " " .. tostring(code))
  end
  function words.token()
    print(("answer %.0f"):format(lock:token()))
  end
  function words.again()
    lock = assert(client:lock(name, { timeout = 10 }))
    words.token()
  end
  function words.exit()
    os.exit(0)
  end
  for line in io.lines() do words[line]() end
  client:close()
]]

local function start_all(kind, count, ttl)
  local list = {}
  for i = 1, count do
    list[i] = proc.lua(HOLDER, suite.endpoints(), prefix, kind .. i, ttl)
  end
  for _, child in ipairs(list) do child:expect("^ready", 20) end
  return list
end

local function ask(child, word)
  child:send(word)
  return child:expect "^answer (.*)"
end

-- Starts |count| holders, each of a name that begins with |kind|; returns them and their tokens.
local function holders(kind, count, ttl)
  local list, tokens = start_all(kind, count, ttl), {}
  for i, child in ipairs(list) do
    child:send "take"
    tokens[i] = tonumber((child:expect("^held (%d+)", 20)))
  end
  return list, tokens
end

-- Starts a waiter behind each of the |count| holders of |kind|; returns the waiters.
local function successors(kind, count, ttl)
  local etcd = suite.etcd()
  local list = start_all(kind, count, ttl)
  for _, child in ipairs(list) do child:send "take" end
  etcd:await_keys(prefix .. kind, 2 * count, 10)
  return list
end

local function end_all(children)
  for _, child in ipairs(children) do child:finish() end
  for _, child in ipairs(children) do child:wait() end
end

describe("a holder that dies", function()
  -- Starts holders and waiters of |count| names; finish(holder) ends a holder.
  local function group(kind, count, finish)
    local self = { kind = kind, finish = finish, ended = {} }
    self.holders, self.tokens = holders(kind, count, TTL)
    self.successors = successors(kind, count, TTL)
    return self
  end

  -- Ends the holders, each at a different time after its last renewal.
  local function end_holders(self)
    for i, child in ipairs(self.holders) do
      self.ended[i] = wait.now()
      self.finish(child)
      wait.sleep(0.03)
    end
  end

  -- Asserts that each waiter gets the lock within TTL + 1 s, with a greater token.
  local function assert_followed(self)
    for i, child in ipairs(self.successors) do
      local token, at = child:expect("^held (%d+) (%S+)", TTL + 8)
      local took = tonumber(at) - self.ended[i]
      assert.is_true(took <= TTL + 1 + wait.SLACK, ("%s %d: %s s"):format(self.kind, i, took))
      assert.is_true(tonumber(token) > self.tokens[i])
    end
    end_all(self.holders)
    end_all(self.successors)
  end

  it("by SIGKILL is followed by the next waiter within TTL + 1 s, in 20 of 20 runs", function()
    local killed = group("killed", RUNS, function(child) child:kill "sigkill" end)
    end_holders(killed)
    assert_followed(killed)
  end)

  it("by os.exit or SIGTERM is followed by the next waiter within TTL + 1 s", function()
    local exited = group("exited", 4, function(child) child:send "exit" end)
    local ended = group("ended", 4, function(child) child:kill "sigterm" end)
    end_holders(exited)
    end_holders(ended)
    assert_followed(exited)
    assert_followed(ended)
  end)
end)

describe("a holder that is stopped past its TTL", function()
  it('gets "lost" from its first call after it resumes, in 20 of 20 runs', function()
    local late, tokens = holders("stopped", RUNS, TTL)
    -- The waiters have a long TTL, so that only the leases of the stopped holders expire.
    local next_ones = successors("stopped", RUNS, LONG)
    for _, child in ipairs(late) do child:kill "sigstop" end
    local new_tokens = {}
    for i, child in ipairs(next_ones) do
      new_tokens[i] = tonumber((child:expect("^held (%d+)", TTL + 4)))
      assert.is_true(new_tokens[i] > tokens[i])
    end
    -- The test sends the commands while the holders are stopped, so that these calls are their
    -- first.
    for _, child in ipairs(late) do
      for _, word in ipairs { "held", "put", "held", "check", "unlock" } do
        child:send(word)
      end
    end
    for _, child in ipairs(late) do child:kill "sigcont" end
    for i, child in ipairs(late) do
      assert.equal("false lost", (child:expect "^answer (.*)"), "held of " .. i)
      assert.equal("nil lost", (child:expect "^answer (.*)"), "put of " .. i)
      assert.equal("false lost", (child:expect "^answer (.*)"), "held again of " .. i)
      assert.equal("nil lost", (child:expect "^answer (.*)"), "check of " .. i)
      assert.equal("nil lost", (child:expect "^answer (.*)"), "unlock of " .. i)
    end
    -- None of these calls has changed etcd or the holds of the new holders.
    assert.same({}, suite.etcd():keys(prefix .. "data/"))
    for i, child in ipairs(next_ones) do
      assert.equal("true nil", (ask(child, "check")))
      assert.equal(("%.0f"):format(new_tokens[i]), (ask(child, "token")))
    end
    -- After the new holders unlock, the old ones can take the locks again, with a new token.
    for _, child in ipairs(next_ones) do assert.equal("true nil", (ask(child, "unlock"))) end
    for i, child in ipairs(late) do
      assert.is_true(tonumber(ask(child, "again")) > new_tokens[i])
      assert.equal("true nil", (ask(child, "check")))
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
      child:send "held"
      child:kill "sigcont"
    end
    for i, child in ipairs(list) do
      assert.equal("true false", (child:expect "^answer (.*)"))
      assert.equal(("%.0f"):format(tokens[i]), (ask(child, "token")))
    end
    -- The sleep is longer than the lease lives if it is not renewed again.
    wait.sleep(LONGER + 0.2)
    for i, child in ipairs(list) do
      assert.equal("true false", (ask(child, "held")))
      assert.equal("true nil", (ask(child, "check")))
      assert.equal(("%.0f"):format(tokens[i]), (ask(child, "token")))
      assert.equal("true nil", (ask(child, "unlock")))
    end
    end_all(list)
  end)
end)
