-- Tests that observers of elections are told when nobody leads any more, and only then.
-- Needs: one plain member.

client_options { ttl = 10 }
local granted = clients.granted
local mine, theirs, observer

before_each(function()
  mine = assert(connect():election "boss")
  theirs = assert(connect { elsewhere = true }:election "boss")
  observer = theirs:observe()
end)

local function await_keys(count) etcd:await_keys(prefix .. "boss/", count) end

local function pack(...) return { n = select("#", ...), ... } end

local function assert_nobody() assert.same({ n = 1, false }, pack(observer:next(10))) end

describe("an observer whose election has no leader", function()
  it("reports that after the leader has resigned, once, and then the next leader", function()
    for _ = 1, 3 do -- the value of the next leader is the same
      local lock = assert(mine:campaign "1")
      assert.same({ "1", lock:key(), lock:token() }, { observer:next(10) })
      assert.is_true(lock:resign())
      assert_nobody()
      clients.assert_unchanged(observer, 0.2)
    end
  end)

  it("reports that after the leader's lease has expired", function()
    local lease = etcd:grant(2)
    etcd:put(prefix .. "boss/" .. lease, "crashed", lease)
    assert.equal("crashed", (observer:next(10)))
    assert_nobody()
    await_keys(0)
  end)

  it("reports that after the leases of all candidates were revoked", function()
    local lock = assert(mine:campaign "1")
    clients.keep(assert(mine:campaign_async("2", { owner = 2 })))
    await_keys(2)
    assert.equal("1", (observer:next(10)))
    etcd:revoke(lock:lease())
    assert_nobody()
  end)

  it("reports nothing before there was a leader", function()
    clients.assert_unchanged(observer, 0.3)
    assert.is_true(assert(mine:campaign "1"):resign())
    await_keys(0)
    clients.assert_unchanged(observer, 0.3) -- the observer has missed the leader
  end)

  it("reports that after its watch was broken meanwhile", function()
    observer = assert(connect { endpoints = server:endpoint() }:election "boss"):observe()
    local lock = assert(mine:campaign "1")
    assert.equal("1", (observer:next(10)))
    server:answer("Watch", "before", 14, "etcdserver: no leader")
    server:interrupt("Watch", 14, "etcdserver: no leader")
    assert.is_true(lock:resign())
    server:pass()
    assert.same({ n = 1, false }, pack(observer:next(5)))
  end)

  it("continues its for loop", function()
    local lock, seen = assert(mine:campaign "1"), {}
    for value in observer do
      seen[#seen + 1] = value
      if value == "1" then
        assert.is_true(lock:resign())
      elseif value == false then
        lock = assert(mine:campaign "2")
      else
        break
      end
    end
    assert.same({ "1", false, "2" }, seen)
    assert.is_true(lock:resign())
  end)
end)

describe("an observer whose leader is followed directly", function()
  it("does not report that nobody leads", function()
    local lock = assert(mine:campaign "0")
    for i = 1, 30 do
      local asked = assert(theirs:campaign_async(tostring(i), { owner = {} }))
      await_keys(2)
      assert.is_true(lock:resign())
      lock = granted(asked)
      repeat
        local value = observer:next(0)
        assert.is_not_false(value)
      until value == nil
    end
    wait.eventually(function()
      local value = observer:next(0.2)
      assert.is_not_false(value)
      return value == nil
    end, 5, "no change")
    assert.is_true(lock:resign())
    assert_nobody()
  end)

  it("does not report that nobody leads if the leader's lease is revoked", function()
    local lock = assert(mine:campaign "1")
    for i = 2, 4 do
      clients.keep(assert(mine:campaign_async(tostring(i), { owner = i })))
      await_keys(i)
    end
    assert.equal("1", (observer:next(10)))
    local heir = assert(theirs:campaign_async("heir", { owner = {} }))
    await_keys(5)
    etcd:revoke(lock:lease())
    assert.equal("heir", (observer:next(10)))
    assert.is_true(granted(heir):resign())
    assert_nobody()
  end)
end)
