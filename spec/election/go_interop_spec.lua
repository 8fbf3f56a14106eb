-- Tests that Go's concurrency.Election, `etcdctl elect` and etcdlock take part in one election.
-- Needs: one plain member.

client_options { ttl = 5 }
local granted = clients.granted
local NAME = prefix .. "boss"

local election

before_each(function() election = assert(client:election "boss") end)

after_each(function()
  clients.close_all()
  -- etcdctl leaves its leases behind, which live for 60 s.
  etcd:revoke_all()
end)

local function await_keys(count) etcd:await_keys(NAME .. "/", count) end

-- Starts `etcdctl elect` with the arguments |...|. It prints a line with the key and a line with
-- the value of each leader.
local function elect(...)
  return proc.talk({ "etcdctl", "elect", ... },
    { ETCDCTL_ENDPOINTS = suite.endpoint() })
end

-- Fails unless |ctl| prints |key| (nil: any) and |value|. Returns the key.
local function assert_prints(ctl, key, value)
  local printed = ctl:expect("^(" .. prefix:gsub("%p", "%%%0") .. ".*)$")
  assert.same({ key or printed, value }, { printed, (ctl:expect "^(.*)$") })
  return printed
end

local function stop(ctl)
  ctl:kill "sigint"
  ctl:wait()
end

describe("etcdctl elect", function()
  it("is observed as leader by etcdlock, and an etcdlock candidate follows it", function()
    local ctl = elect(NAME, "theirs")
    local key = assert_prints(ctl, nil, "theirs")
    local observer = election:observe()
    local value, seen, token = election:leader()
    assert.same({ "theirs", key }, { value, seen })
    assert.same({ "theirs", key, token }, { observer:next(5) })
    local asked = assert(election:campaign_async("ours", { owner = {} }))
    await_keys(2)
    assert.is_false(asked:step())
    assert.same({ "theirs", true, false },
      { client:queue "boss"[1].value, client:queue "boss"[1].held, client:queue "boss"[2].held })
    stop(ctl)
    local lock = granted(asked)
    assert.is_true(lock:token() > token)
    assert.same({ "ours", lock:key(), lock:token() }, { observer:next(5) })
    assert.is_true(lock:resign())
  end)

  it("waits behind an etcdlock leader and leads after that resigns", function()
    local lock = assert(election:campaign "ours")
    local ctl = elect(NAME, "theirs")
    await_keys(2)
    wait.sleep(0.3)
    assert.is_nil(ctl.lines[1])
    assert.is_true(lock:resign())
    assert_prints(ctl, nil, "theirs")
    assert.equal("theirs", (election:leader()))
    stop(ctl)
    await_keys(0)
  end)

  it("with -l prints each leader and value of etcdlock", function()
    local lock = assert(election:campaign "a")
    local ctl = elect("-l", NAME)
    assert_prints(ctl, lock:key(), "a")
    assert.is_true(lock:proclaim "b")
    assert_prints(ctl, lock:key(), "b")
    assert.is_true(lock:resign())
    lock = assert(election:campaign "c")
    assert_prints(ctl, lock:key(), "c")
    stop(ctl)
    assert.is_true(lock:resign())
  end)
end)

describe("Go's Election and etcdlock", function()
  local start_go = go_programs.build "election"
  local function told(text, story)
    it(text, start_go and story or function() pending(go_programs.MISSING) end)
  end
  local function start() return start_go(etcd:endpoint(), NAME) end

  local function tell(go, what, answer)
    go:send(what)
    go:expect(answer)
  end

  told("lead in queue order and see each other as leader", function()
    local first, second = start(), start()
    tell(first, "campaign go1", "^leads")
    assert.equal("go1", (election:leader()))
    local asked = assert(election:campaign_async("ours", { owner = {} }))
    await_keys(2)
    second:send "campaign go2"
    await_keys(3)
    tell(first, "resign", "^resigned")
    local lock = granted(asked)
    tell(first, "leader", "^leader ours$")
    assert.is_nil(second.lines[1])
    assert.is_true(lock:proclaim "ours too")
    tell(first, "leader", "^leader ours too$")
    assert.is_true(lock:resign())
    second:expect "^leads"
    assert.equal("go2", (election:leader()))
    tell(second, "resign", "^resigned")
    assert.is_false(election:leader())
  end)

  told("observe each value of the other", function()
    local go, watching = start(), start()
    local observer = election:observe()
    watching:send "observe"
    tell(go, "campaign a", "^leads")
    assert.equal("a", (observer:next(5)))
    watching:expect "^saw a$"
    tell(go, "proclaim b", "^proclaimed")
    assert.equal("b", (observer:next(5)))
    watching:expect "^saw b$"
    tell(go, "resign", "^resigned")
    local lock = assert(election:campaign "c")
    assert.equal("c", (observer:next(5)))
    watching:expect "^saw c$"
    assert.is_true(lock:proclaim "d")
    assert.equal("d", (observer:next(5)))
    watching:expect "^saw d$"
    assert.is_true(lock:resign())
  end)

  told("both observe each of 20 changes of leader", function()
    local go, watching, observer, lock = start(), start(), election:observe(), nil
    watching:send "observe"
    local function assert_seen(value)
      assert.equal(value, (observer:next(5)))
      assert.equal(value, (watching:expect "^saw (.*)$"))
    end
    for i = 1, 10 do
      go:send("campaign go" .. i)
      if lock then
        await_keys(2)
        assert.is_true(lock:resign())
      end
      go:expect "^leads"
      assert_seen("go" .. i)
      local asked = assert(election:campaign_async("ours" .. i, { owner = {} }))
      await_keys(2)
      tell(go, "resign", "^resigned")
      lock = granted(asked)
      assert_seen("ours" .. i)
    end
    assert.is_true(lock:resign())
  end)

  told("elect the next candidate after a leading Go process is killed", function()
    local go = start()
    tell(go, "campaign go", "^leads")
    local asked = assert(election:campaign_async("ours", { owner = {} }))
    await_keys(2)
    go:kill()
    local lock = granted(asked)
    assert.equal("ours", (election:leader()))
    assert.is_true(lock:resign())
  end)
end)
