-- Tests observers of elections if watch events are late, repeated or missing.
-- Needs: one plain member.

local clients = require "spec.support.harness.clients"
local core = require "etcdlock.core"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix, ttl = 30 }
local assert_fails, granted = clients.assert_fails, clients.granted
local list = table.unpack or unpack -- luacheck: ignore unpack
local client, other, mine, theirs, observer, lock, news

local function await_keys(count)
  wait.eventually(function() return #etcd:keys(prefix) == count end, 5, count .. " keys")
end

local function assert_sees(...)
  for _, value in ipairs { ... } do assert.equal(value, (observer:next(5))) end
end

-- Returns a stand-in for |watcher| that changes what its observer reads. Its fields: |is_late|:
-- true: no event arrives; |swallows|(kind, ...): events for which it returns true never arrive;
-- |also|: events that arrive first; |asked|: number of calls of first().
local function tap(watcher)
  local self = { asked = 0, also = {}, swallows = function() return false end }
  function self.first()
    self.asked = self.asked + 1
    if self.is_late then return nil end
    if self.also[1] then return list(self.also[1]) end
    while true do
      local first = { watcher:first() }
      if first[1] == nil or not self.swallows(list(first)) then return list(first, 1, 6) end
      watcher:pass()
    end
  end
  function self.pass()
    if table.remove(self.also, 1) == nil then watcher:pass() end
  end
  function self.wait(_, what, seconds)
    if what == "news" and self.also[1] then return true end
    if not self.is_late then return watcher:wait(what, seconds) end
    wait.sleep(seconds)
  end
  function self.close() watcher:close() end
  return self
end

-- Enqueues a candidate with |value| behind the leader; returns its pending campaign.
local function stand(value)
  local count = #etcd:keys(prefix)
  local asked = assert(theirs:campaign_async(value, { owner = value }))
  await_keys(count + 1)
  return asked
end

local function swallow_deletions()
  function news.swallows(kind) return kind == "deleted" end
end

-- Lets the leader resign, so that the pending campaign |asked| becomes the leader.
local function follow(asked)
  assert.is_true(lock:resign())
  lock = granted(asked)
end

-- Runs observer:next(seconds) up to the answer of its first request to etcd; returns a function
-- that continues it.
local function ask_and_stop(seconds)
  return clients.ask_and_stop(other, function() return observer:next(seconds) end)
end

before_each(function()
  client, other = connect(), connect { elsewhere = true }
  mine, theirs = assert(client:election "boss"), assert(other:election "boss")
  observer = theirs:observe()
  lock = assert(mine:campaign "1")
  assert_sees "1"
  news = tap(observer._watcher)
  observer._watcher, observer._look_at = news, core.now() + 10
end)

after_each(function()
  assert.is_true(lock:resign())
  clients.close_all()
end)

describe("the periodic read of an observer", function()
  it("finds the new leader if a DELETE event is missing", function()
    swallow_deletions()
    follow(stand "2")
    assert_fails("timeout", observer:next(0.2))
    observer._look_at = core.now()
    assert_sees "2"
    assert_fails("timeout", observer:next(0.2))
  end)

  it("finds the new leader although other events keep arriving", function()
    swallow_deletions()
    follow(stand "2")
    local pass = news.pass
    function news.pass()
      pass()
      assert.is_true(lock:put(prefix .. "boss/below", "v"))
      assert.is_true(news:wait("news", 5)) -- an event is always pending
    end
    assert.is_true(lock:put(prefix .. "boss/below", "v"))
    assert_fails("timeout", observer:next(0.1))
    observer._look_at = core.now()
    assert_sees "2"
    news.pass = pass
    assert.is_true(lock:delete(prefix .. "boss/below"))
  end)

  it("skips no leader if events are late", function()
    news.is_late = true
    follow(stand "2")
    assert.is_true(lock:proclaim "3")
    observer._look_at = core.now()
    assert_fails("timeout", observer:next(0.1)) -- has read, and waits for late events
    news.is_late = false
    assert_sees("2", "3")
    assert_fails("timeout", observer:next(0.2))
  end)

  it("skips no leader if late events arrive less than a second apart", function()
    news.is_late = true
    follow(stand "2")
    assert.is_true(lock:proclaim "3" and lock:proclaim "4")
    observer._look_at = core.now()
    for i = 2, 4 do
      assert_fails("timeout", observer:next(0.4))
      news.is_late = false
      assert_sees(tostring(i))
      news.is_late = true
    end
    assert_fails("timeout", observer:next(0.4))
  end)

  it("reports the newest leader after 1 s without events, and only once", function()
    news.is_late = true
    follow(stand "2")
    assert.is_true(lock:proclaim "3")
    observer._look_at = core.now()
    assert_sees "3"
    news.is_late = false
    assert_fails("timeout", observer:next(0.3))
  end)

  it("reports the leader that it has found before later leaders", function()
    swallow_deletions()
    follow(stand "2")
    observer._look_at = core.now()
    assert_fails("timeout", observer:next(0.1)) -- has read, and waits for late events
    news.swallows = function() return false end
    follow(stand "3")
    assert_sees("2", "3")
    assert_fails("timeout", observer:next(0.2))
  end)

  it("sends one request and reports nothing if no event is missing", function()
    follow(stand "2")
    assert_sees "2"
    observer._look_at = core.now()
    local calls = other:stats().calls
    assert_fails("timeout", observer:next(1.5))
    assert.equal(calls + 1, other:stats().calls)
  end)

  it("is ignored if newer events have arrived before its answer is used", function()
    observer._look_at = core.now()
    local go_on = ask_and_stop(1.5)
    assert.is_true(lock:proclaim "2")
    assert_sees "2"
    assert_fails("timeout", go_on())
  end)

  it("is repeated soon if it was ignored because of newer events", function()
    observer._look_at = core.now()
    local go_on = ask_and_stop(5)
    assert.is_true(lock:proclaim "2")
    assert_sees "2"
    swallow_deletions()
    follow(stand "3")
    assert.equal("3", (go_on()))
  end)

  it("is repeated by the next call if the calling coroutine is dropped", function()
    swallow_deletions()
    follow(stand "2")
    observer._look_at = core.now()
    ask_and_stop(5)
    assert_sees "2"
  end)
end)

describe("a repeated watch event", function()
  it("of an older revision is not reported by an observer", function()
    local key, token = lock:key(), lock:token()
    follow(stand "2")
    assert_sees "2"
    news.also = { { "put", token, key, "1", token, false } }
    assert_fails("timeout", observer:next(0.2))
    assert.same({}, news.also)
  end)

  it("of the last revision is not reported by an observer", function()
    assert.is_true(lock:proclaim "2")
    assert_sees "2"
    news.also = { { "put", etcd:revision(), lock:key(), "1", lock:token(), false } }
    assert_fails("timeout", observer:next(0.2))
  end)
end)

describe("an observer with a restarted watch", function()
  local function begin_anew() news.also = { { "reset", etcd:revision() } } end

  it("continues at the revision of the restart and misses no leader since", function()
    swallow_deletions()
    follow(stand "2")
    news.swallows = function() return false end
    begin_anew()
    follow(stand "3")
    assert.is_true(lock:proclaim "4")
    assert_sees("2", "3", "4")
    assert_fails("timeout", observer:next(0.2))
  end)

  it("continues in another call if the listing coroutine is dropped", function()
    swallow_deletions()
    follow(stand "2")
    begin_anew()
    ask_and_stop(5)
    assert_sees "2"
  end)

  it("reports no older leader from a call that another call has overtaken", function()
    begin_anew()
    local go_on = ask_and_stop(0.3)
    assert_fails("timeout", observer:next(0.1))
    assert.is_true(lock:proclaim "2")
    assert_sees "2"
    assert_fails("timeout", go_on())
  end)

  it('fails with "unavailable" while etcd is behind, and asks it every 0.5 s', function()
    news.also = { { "reset", etcd:revision() + 2 } }
    function news.swallows() return true end
    local calls, asked, from = other:stats().calls, news.asked, wait.now()
    local message = assert_fails("unavailable", observer:next(0.3))
    assert.matches("doesn't know yet", message)
    assert.is_true(news.asked - asked < 10, "it was busy")
    -- Two requests every 0.5 s: for the candidates at that revision, and for the current ones.
    calls = other:stats().calls - calls
    assert.is_true(calls >= 2 and calls % 2 == 0, calls .. " requests")
    assert.is_true(calls <= 2 * (1 + math.floor((wait.now() - from) / 0.5)), calls .. " requests")
    assert.is_true(lock:proclaim "2")
    assert.is_true(lock:proclaim "3")
    assert_sees "3"
  end)

  it("reads the leader at once if the restart is at an older revision", function()
    swallow_deletions()
    follow(stand "2")
    assert.is_true(lock:put(prefix .. "boss/below", "v"))
    assert.is_true(lock:delete(prefix .. "boss/below"))
    assert_fails("timeout", observer:next(0.2))
    news.also = { { "reset", lock:token() - 1 } }
    assert_sees "2"
  end)
end)
