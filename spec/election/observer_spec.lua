-- Tests that observers of elections report each leader and each of its values once and in order.
-- Needs: one plain member.

local clients = require "spec.support.harness.clients"
local port = require "spec.support.servers.port"
local rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector(function()
  return { endpoints = etcd:endpoints(), prefix = prefix, ttl = 5 }
end)
local assert_fails, granted = clients.assert_fails, clients.granted
local client, other, mine, theirs, observer

before_each(function()
  client, other = connect(), connect { elsewhere = true }
  mine, theirs = assert(client:election "boss"), assert(other:election "boss")
  observer = theirs:observe()
end)

after_each(clients.close_all)

local function await_keys(count)
  wait.eventually(function() return #etcd:keys(prefix) == count end, 5, count .. " keys")
end

local function assert_sees(...)
  for _, value in ipairs { ... } do assert.equal(value, (observer:next(10))) end
end

-- Waits until the watch of the observer is created, which reports all events from then on.
local function await_watch() assert.is_true(observer._watcher:wait("news", 5)) end

-- Replaces the observer by one whose client asks etcd through |server|.
local function observe_through(server)
  observer = assert(connect { endpoints = server:endpoint() }:election "boss"):observe()
end

describe("an observer", function()
  it("reports each leader and each of its values once and in order", function()
    local lock = assert(mine:campaign "1")
    assert.same({ "1", lock:key(), lock:token() }, { observer:next() })
    for i = 2, 9 do assert.is_true(lock:proclaim(tostring(i))) end
    assert_sees("2", "3", "4", "5", "6", "7", "8", "9")
    local asked, seen = {}, {}
    for i = 10, 29 do
      asked[i] = assert(mine:campaign_async(tostring(i), { owner = i }))
      await_keys(i - 8)
    end
    for i = 10, 29 do
      assert.is_true(lock:resign())
      lock = granted(asked[i])
    end
    for i = 10, 29 do seen[i] = { assert(observer:next(10)) } end
    for i = 10, 29 do assert.equal(tostring(i), seen[i][1]) end
    for i = 11, 29 do assert.is_true(seen[i][3] > seen[i - 1][3]) end
    assert.is_true(lock:resign())
    assert_fails("timeout", observer:next(0.2))
  end)

  it("begins with the current leader and reports no older one", function()
    for i = 1, 3 do assert.is_true(assert(mine:campaign(tostring(i))):resign()) end
    local lock = assert(mine:campaign "4")
    observer = theirs:observe()
    assert_sees "4"
    assert_fails("timeout", observer:next(0.3))
    assert.is_true(lock:resign())
    assert_fails("timeout", observer:next(0.3))
  end)

  it("reports all leaders since its watch was created, even if next is called later", function()
    await_watch()
    for i = 1, 3 do assert.is_true(assert(mine:campaign(tostring(i))):resign()) end
    local lock = assert(mine:campaign "4")
    assert_sees("1", "2", "3", "4")
    assert.is_true(lock:resign())
  end)

  it("sends no request for next(0) before its watch is created", function()
    local server = clients.scripted(suite.endpoint())
    server:answer("Watch", "never", rows.STATUS.UNAVAILABLE, "") -- it is never created
    local waiting = connect { endpoints = server:endpoint() }
    assert_fails("timeout", assert(waiting:election "boss"):observe():next(0))
    assert.equal(0, waiting:stats().calls)
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
    assert_fails("timeout", observer:next(0.2))
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
    assert.equal('election "boss" has had no other leader, nor word of him, within 1 s', message)
    assert_fails("timeout", observer:next(0))
    assert.is_true(asked:cancel())
    assert.is_true(lock:resign())
  end)

  it("skips candidates that lose their keys at the same revision as the leader", function()
    local lock = assert(mine:campaign "1")
    for i = 2, 5 do
      clients.keep(assert(mine:campaign_async(tostring(i), { owner = i })))
      await_keys(i)
    end
    assert_sees "1"
    local heir = assert(theirs:campaign_async("heir", { owner = {} }))
    await_keys(6)
    etcd:revoke(lock:lease())
    assert_sees "heir"
    assert.is_true(granted(heir):resign())
  end)

  it("ignores permits of the same name and locks on names below it", function()
    local semaphore = assert(other:semaphore("boss", 2))
    local permit = assert(semaphore:lock())
    local below = assert(other:lock "boss/below")
    assert_fails("timeout", observer:next(0.2))
    local lock = assert(mine:campaign "a")
    assert_sees "a"
    assert.is_true(permit:unlock() and below:unlock())
    assert_fails("timeout", observer:next(0.2))
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
    assert_fails("timeout", observer:next(0.2)) -- no event is pending
    assert.is_true(observer:close())
    assert_fails("closed", observer:next(1))
    assert.is_true(observer:close())
    observer._watcher:pass() -- as another coroutine with an event does
    assert.is_true(observer._watcher:wait("news", 0), "who waits is not woken")
    local kept
    for _ in (function(...)
      kept = ...
      return ...
    end)(theirs:observe()) do
      if kept then break end
    end
    if _VERSION == "Lua 5.4" then assert_fails("closed", kept:next(0)) end
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
    assert_fails("closed", closed:next(0)) -- so that it is not collected earlier
    watch_too()
    collectgarbage()
    collectgarbage()
    wait.eventually(function() return etcd:watchers() == count end, 5, "its watch is gone, too")
  end)

  it('fails with "closed" on a closed client, and raises an error for a wrong timeout', function()
    assert.equal('etcdlock.observer "boss"', tostring(observer))
    other:close()
    assert.is_true(observer:close())
    assert_fails("closed", observer:next(1))
    assert_fails("closed", theirs:observe():next(1))
    assert.has_error(function() observer:next "soon" end,
      'observer:next: timeout = "soon", wanted 0 or more seconds')
  end)

  it("continues with the current leader if too many events were left unread", function()
    local lock, big = assert(mine:campaign "1"), prefix .. "boss/1234"
    assert_sees "1"
    local heir = assert(theirs:campaign_async("3", { owner = {} }))
    await_keys(2)
    assert.is_true(lock:proclaim "2")
    for _ = 1, 5 do
      -- The key of another candidate with a value of 1 MB.
      assert.is_true(lock:put(big, ("x"):rep(1000000)))
    end
    assert.is_true(lock:resign())
    lock = granted(heir)
    assert.is_true(lock:proclaim "4" and lock:proclaim "5")
    assert_sees("3", "4", "5")
    assert.is_true(lock:delete(big))
    assert.is_true(lock:resign())
  end)
end)

describe("an observer with a broken watch", function()
  local server
  local NO_LEADER = "etcdserver: no leader"

  before_each(function()
    server = clients.scripted(suite.endpoint())
    observe_through(server)
  end)

  it("continues with the current leader, and reports none twice and none older", function()
    local lock = assert(mine:campaign "1")
    assert_sees "1"
    server:answer("Watch", "before", rows.STATUS.UNAVAILABLE, NO_LEADER)
    server:interrupt("Watch", rows.STATUS.UNAVAILABLE, NO_LEADER)
    assert_fails("timeout", observer:next(0.2))
    local asked = assert(mine:campaign_async("2", { owner = {} }))
    assert.is_true(lock:resign())
    local second = granted(asked)
    assert.is_true(second:proclaim "3")
    asked = assert(theirs:campaign_async("4", { owner = {} }))
    await_keys(2)
    server:pass()
    assert.equal("3", (observer:next(5))) -- by the new watch, not the periodic read
    assert_fails("timeout", observer:next(0.3))
    assert.is_true(second:resign())
    assert_sees "4"
    assert.is_true(granted(asked):resign())
  end)

  it("continues in another call if the reading coroutine is dropped", function()
    local lock = assert(mine:campaign "1")
    assert_sees "1"
    server:answer("Watch", "before", rows.STATUS.UNAVAILABLE, NO_LEADER)
    server:interrupt("Watch", rows.STATUS.UNAVAILABLE, NO_LEADER)
    assert.is_true(lock:proclaim "2")
    server:pass()
    clients.ask_and_stop(observer._client, function() return observer:next(5) end)
    assert_sees "2"
    assert.is_true(lock:resign())
  end)

  it("reads the leader and reports nothing if nothing has changed", function()
    local lock = assert(mine:campaign "1")
    assert_sees "1"
    server:interrupt("Watch", rows.STATUS.UNAVAILABLE, NO_LEADER)
    local calls = server:calls "Txn"
    assert_fails("timeout", observer:next(2))
    assert.is_true(server:calls "Txn" > calls, "it has not looked")
    assert.is_true(lock:resign())
  end)

  it('fails with "unavailable" until it can read the leader again', function()
    local lock = assert(mine:campaign "1")
    assert_sees "1"
    server:answer("Txn", "before", rows.STATUS.UNAVAILABLE, NO_LEADER)
    server:interrupt("Watch", rows.STATUS.UNAVAILABLE, NO_LEADER)
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
end)
