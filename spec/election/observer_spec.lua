-- Tests that observers of elections report the newest leader and its value, or that nobody leads,
-- and nothing twice.
-- Needs: one plain member.

local granted = clients.granted
local mine, theirs, observer

before_each(function()
  mine, theirs = assert(client:election "boss"), assert(other:election "boss")
  observer = theirs:observe()
end)

local function await_keys(count) etcd:await_keys(prefix, count) end

local function assert_sees(...)
  for _, value in ipairs { ... } do assert.equal(value, (observer:next(10))) end
end

-- Waits until etcd has created the watch of the observer. From then on, the watch reports all
-- events.
local function await_watch() assert.is_true(observer._watcher:wait_changed(5)) end

-- Calls observer:next again and again until it returns |value|. Fails if it returns an older leader
-- or an older value (values are numbers that grow) after a newer one. Returns how often it returned
-- a leader.
local function assert_ends_with(value)
  local reports, last, token = 0, -1, 0
  wait.eventually(function()
    local seen, _, since = observer:next(0.2)
    if seen then
      assert.is_true(tonumber(seen) > last and since >= token, seen .. " after " .. last)
      reports, last, token = reports + 1, tonumber(seen), since
    end
    return seen == value
  end, 10, "the newest leader")
  clients.assert_unchanged(observer, 0.2)
  return reports
end

-- Replaces the observer by one whose client sends its requests through |server|.
local function observe_through(server)
  observer = assert(connect { endpoints = server:endpoint() }:election "boss"):observe()
end

describe("an observer", function()
  it("reports each leader and each value that it is asked for in time", function()
    local lock = assert(mine:campaign "1")
    assert.same({ "1", lock:key(), lock:token() }, { observer:next() })
    for i = 2, 9 do
      assert.is_true(lock:proclaim(tostring(i)))
      assert_sees(tostring(i))
    end
    for i = 10, 19 do
      local asked = assert(mine:campaign_async(tostring(i), { owner = i }))
      await_keys(2)
      assert.is_true(lock:resign())
      lock = granted(asked)
      assert.same({ tostring(i), lock:key(), lock:token() }, { observer:next(10) })
    end
    assert.is_true(lock:resign())
  end)

  it("ends with the newest leader and value after a burst of changes", function()
    local lock, asked = assert(mine:campaign "1"), {}
    assert_sees "1"
    for i = 2, 10 do
      asked[i] = assert(mine:campaign_async(tostring(10 * i), { owner = i }))
      await_keys(i)
    end
    for i = 2, 10 do
      assert.is_true(lock:resign())
      lock = granted(asked[i])
      for word = 1, 5 do assert.is_true(lock:proclaim(tostring(10 * i + word))) end
    end
    assert.is_true(assert_ends_with "105" < 9, "intermediate leaders were not skipped")
    assert.is_true(lock:resign())
  end)

  it("begins with the current leader and reports no older one", function()
    for i = 1, 3 do assert.is_true(assert(mine:campaign(tostring(i))):resign()) end
    local lock = assert(mine:campaign "4")
    observer = theirs:observe()
    assert_sees "4"
    clients.assert_unchanged(observer, 0.3)
    assert.is_true(lock:resign())
  end)

  it("reports the current leader with next(0) and sends requests only after changes", function()
    local lock = assert(mine:campaign "1")
    wait.eventually(function() return observer:next(0) == "1" end, 5, "the leader")
    -- Until this ends, the client creates the watch and reads the leader again.
    wait.eventually(function()
      local calls = other:stats().calls
      clients.assert_unchanged(observer, 0.2)
      return other:stats().calls == calls
    end, 5, "no further request")
    local calls = other:stats().calls
    for _ = 1, 5 do assert_fails("timeout", observer:next(0)) end
    assert.equal(calls, other:stats().calls)
    assert.is_true(lock:proclaim "2")
    wait.eventually(function() return observer:next(0) == "2" end, 5, "the value")
    assert.equal(calls + 1, other:stats().calls)
    assert.is_true(lock:resign())
  end)

  it("sends no request while candidates behind the leader come and go", function()
    local lock = assert(mine:campaign "1")
    assert_sees "1"
    clients.assert_unchanged(observer, 0.5)
    local calls = other:stats().calls
    for i = 1, 3 do
      local asked = assert(mine:campaign_async("behind", { owner = i }))
      await_keys(2)
      assert.is_true(asked:cancel())
      await_keys(1)
      clients.assert_unchanged(observer, 0.1)
    end
    assert.equal(calls, other:stats().calls)
    assert.is_true(lock:resign())
  end)

  it("reports values unchanged, also an empty one and any bytes", function()
    local lock = assert(mine:campaign "")
    assert_sees ""
    for _, word in ipairs { "a\0b", "\0", "", "\255\r\n" } do
      assert.is_true(lock:proclaim(word))
      assert_sees(word)
      assert.equal(word, (theirs:leader()))
    end
    assert.is_true(lock:resign())
  end)

  it("times out without using the CPU while neither leader nor value changes", function()
    clients.assert_unchanged(observer, 0.2)
    local lock = assert(mine:campaign "a")
    assert_sees "a"
    assert.is_true(lock:proclaim "a")
    assert.is_true(lock:put(prefix .. "data", "v"))
    assert.is_true(lock:delete(prefix .. "data"))
    local asked = assert(theirs:campaign_async("b", { owner = {} }))
    await_keys(2)
    local used = os.clock()
    local message = assert_fails("timeout", observer:next(1))
    assert.is_true(os.clock() - used < 0.2, "it was busy")
    assert.equal('observer of election "' .. prefix
      .. 'boss": etcd reported no change of leader or value '
      .. "within 1 s", message)
    assert_fails("timeout", observer:next(0))
    assert.is_true(asked:cancel())
    assert.is_true(lock:resign())
  end)

  it("ignores permits of the same name and locks on names below it", function()
    local semaphore = assert(other:semaphore("boss", 2))
    local permit = assert(semaphore:lock())
    local below = assert(other:lock "boss/below")
    clients.assert_unchanged(observer, 0.2)
    local lock = assert(mine:campaign "a")
    assert_sees "a"
    assert.is_true(permit:unlock() and below:unlock())
    clients.assert_unchanged(observer, 0.2)
    assert.is_true(lock:resign())
  end)

  it("is an iterator for a for loop, which ends when the client is closed", function()
    local lock, seen = assert(mine:campaign "1"), {}
    for value, key, token in observer do
      assert.same({ lock:key(), lock:token() }, { key, token })
      seen[#seen + 1] = value
      if value == "3" then other:close() else lock:proclaim(("%d"):format(value + 1)) end
    end
    assert.same({ "1", "2", "3" }, seen)
    for _ in observer do error "closed" end
    assert_fails("closed", observer:next())
    assert.is_true(lock:resign())
  end)

  it('fails with "closed" after close and, in Lua 5.4, after its for loop', function()
    local lock = assert(mine:campaign "1")
    assert_sees "1"
    clients.assert_unchanged(observer, 0.2) -- no event is pending
    assert.is_true(observer:close())
    assert_fails("closed", observer:next(1))
    assert.is_true(observer:close())
    -- Another coroutine that has just read the leader makes this call.
    observer._watcher:pass(1)
    assert.is_true(observer._watcher:wait_changed(0), "a waiting coroutine is not woken")
    local kept
    for _ in (function(...)
      kept = ...
      return ...
    end)(theirs:observe()) do
      if kept then break end
    end
    if coroutine.close then assert_fails("closed", kept:next(0)) end
    assert.is_true(lock:resign())
  end)

  it("ends its watch in etcd when it is closed or garbage-collected", function()
    await_watch()
    local count = etcd:watchers()
    local function watch_too()
      local second = theirs:observe()
      wait.eventually(function() return etcd:watchers() == count + 1 end, 5, "another watch")
      return second
    end
    local closed = watch_too()
    closed:close()
    wait.eventually(function() return etcd:watchers() == count end, 5, "its watch is gone")
    assert_fails("closed", closed:next(0)) -- keeps |closed| from being collected earlier
    watch_too()
    collectgarbage()
    collectgarbage()
    wait.eventually(function() return etcd:watchers() == count end, 5, "its watch is gone, too")
  end)

  it('fails with "closed" on a closed client, and raises an error for a wrong timeout', function()
    assert.equal('etcdlock.observer "' .. prefix .. 'boss"', tostring(observer))
    other:close()
    assert.is_true(observer:close())
    assert_fails("closed", observer:next(1))
    assert_fails("closed", theirs:observe():next(1))
    assert.has_error(function() observer:next "soon" end,
      'observer:next: timeout = "soon", wanted 0 or more seconds')
  end)
end)

describe("an observer with a broken watch", function()
  local NO_LEADER = "etcdserver: no leader"

  before_each(function() observe_through(server) end)

  it("continues with the current leader, and reports none twice and none older", function()
    local lock = assert(mine:campaign "1")
    assert_sees "1"
    server:answer("Watch", "before", error_rows.STATUS.UNAVAILABLE, NO_LEADER)
    server:interrupt("Watch", error_rows.STATUS.UNAVAILABLE, NO_LEADER)
    clients.assert_unchanged(observer, 0.2)
    local asked = assert(mine:campaign_async("2", { owner = {} }))
    assert.is_true(lock:resign())
    local second = granted(asked)
    assert.is_true(second:proclaim "3")
    asked = assert(theirs:campaign_async("4", { owner = {} }))
    await_keys(2)
    server:pass()
    assert.equal("3", (observer:next(5))) -- from the new watch, not from the periodic read
    clients.assert_unchanged(observer, 0.3)
    assert.is_true(second:resign())
    assert_sees "4"
    assert.is_true(granted(asked):resign())
  end)

  it("continues in another call if the reading coroutine is dropped", function()
    local lock = assert(mine:campaign "1")
    assert_sees "1"
    server:answer("Watch", "before", error_rows.STATUS.UNAVAILABLE, NO_LEADER)
    server:interrupt("Watch", error_rows.STATUS.UNAVAILABLE, NO_LEADER)
    assert.is_true(lock:proclaim "2")
    server:pass()
    clients.ask_and_stop(observer._client, function() return observer:next(5) end)
    assert_sees "2"
    assert.is_true(lock:resign())
  end)

  it("reads the leader and reports nothing if nothing has changed", function()
    local lock = assert(mine:campaign "1")
    assert_sees "1"
    clients.assert_unchanged(observer, 0.5)
    server:interrupt("Watch", error_rows.STATUS.UNAVAILABLE, NO_LEADER)
    local calls = server:calls "Txn"
    assert_fails("timeout", observer:next(2))
    assert.is_true(server:calls "Txn" > calls, "it has not looked")
    assert.is_true(lock:resign())
  end)

  it('fails with "unavailable" until it can read the leader again', function()
    local lock = assert(mine:campaign "1")
    assert_sees "1"
    server:answer("Txn", "before", error_rows.STATUS.UNAVAILABLE, NO_LEADER)
    server:interrupt("Watch", error_rows.STATUS.UNAVAILABLE, NO_LEADER)
    assert.is_true(lock:proclaim "2")
    local message = assert_fails("unavailable", observer:next(1))
    assert.matches("no leader", message)
    server:pass()
    assert_sees "2"
    assert.is_true(lock:resign())
  end)
end)

describe("an observer of an etcd that was never reached", function()
  it('fails with "unavailable", even without a timeout', function()
    local nowhere = connect { endpoints = "127.0.0.1:" .. port.free() }
    observer = assert(nowhere:election "boss"):observe()
    local from = wait.now()
    assert.matches("refused", assert_fails("unavailable", observer:next(0.5)))
    assert.is_true(wait.now() - from < 0.5 + wait.SLACK)
    assert_fails("unavailable", observer:next())
    assert.is_true(wait.now() - from < 8 + wait.SLACK)
  end)

  -- Regression 236. Without a timeout, `next` failed after 5 s, also if the network was only slow.
  it("waits longer if there is no answer yet", function()
    local proxy = Swallow.start(suite.endpoint())
    proxy:swallow()
    clients.keep(assert(mine:campaign "1"))
    local child = proc.lua([[
      local client = require("etcdlock").connect { endpoints = ... }
      print(client:election(select(2, ...)):observe():next())
    ]], proxy:endpoint(), prefix .. "boss")
    wait.sleep(8)
    proxy:forward()
    child:expect "^1\t"
  end)
end)

-- ---- nobody leads ----

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

  it("reports that after the lease of all candidates was revoked", function()
    local lease = etcd:grant(60)
    for i = 1, 2 do etcd:put(("%sboss/%s-%d"):format(prefix, lease, i), tostring(i), lease) end
    assert.equal("1", (observer:next(10)))
    etcd:revoke(lease)
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
    local lock, behind = assert(mine:campaign "1"), {}
    for i = 2, 4 do
      behind[i] = assert(mine:campaign_async(tostring(i), { owner = i }))
      await_keys(i)
    end
    assert.equal("1", (observer:next(10)))
    local heir = assert(theirs:campaign_async("heir", { owner = {} }))
    await_keys(5)
    etcd:revoke(lock:lease())
    assert.equal("heir", (observer:next(10)))
    for i = 2, 4 do behind[i]:cancel() end -- else they wait again, with a new lease
    await_keys(1)
    assert.is_true(granted(heir):resign())
    assert_nobody()
  end)
end)
