-- Tests observers of elections if watch events are missing, or arrive while the leader is read.
-- Needs: one plain member.

local granted = clients.granted
local mine, theirs, observer, lock

local function await_keys(count) etcd:await_keys(prefix .. "boss/", count) end

local function assert_sees(...)
  for _, value in ipairs { ... } do assert.equal(value, (observer:next(5))) end
end

-- Replaces the watcher of the observer by one that reports no further change. With |is_ahead|, it
-- always reports one more change than was passed, at a revision that etcd has not reached. Returns
-- a function that restores the watcher.
local function swallow_changes(is_ahead)
  local watcher, changes, revision = observer._watcher, observer._watcher:changes()
  local function sleep(_, seconds) wait.sleep(seconds) end
  observer._watcher = {
    changes = function()
      return is_ahead and changes + 1 or changes, is_ahead and revision + 3 or revision
    end,
    pass = function(_, passed) changes = passed end,
    wait_changed = sleep, wait_closed = sleep,
  }
  return function() observer._watcher = watcher end
end

-- Enqueues a candidate with |value| behind the leader; returns its pending campaign.
local function stand(value)
  local count = #etcd:keys(prefix .. "boss/")
  local asked = assert(theirs:campaign_async(value, { owner = value }))
  await_keys(count + 1)
  return asked
end

-- Lets the leader resign, so that the pending campaign |asked| becomes the leader.
local function follow(asked)
  assert.is_true(lock:resign())
  lock = granted(asked)
end

-- Runs observer:next(seconds) up to the answer to its first request. Returns a function that
-- continues the call.
local function ask_and_stop(seconds)
  return clients.ask_and_stop(other, function() return observer:next(seconds) end)
end

before_each(function()
  mine, theirs = assert(client:election "boss"), assert(other:election "boss")
  observer = theirs:observe()
  lock = assert(mine:campaign "1")
  assert_sees "1"
  -- Until this ends, the client creates the watch and reads the leader again.
  clients.assert_unchanged(observer, 0.5)
  observer._read_at = core.now() + 20
end)

after_each(function() assert.is_true(lock:resign()) end)

describe("the periodic read of an observer", function()
  it("finds the new leader if a DELETE event is missing", function()
    swallow_changes()
    follow(stand "2")
    clients.assert_unchanged(observer, 0.2)
    observer._read_at = core.now()
    assert_sees "2"
    clients.assert_unchanged(observer, 0.2)
  end)

  it("finds that nobody leads if a DELETE event is missing", function()
    local deliver = swallow_changes()
    assert.is_true(lock:resign())
    clients.assert_unchanged(observer, 0.2)
    observer._read_at = core.now()
    assert.is_false(observer:next(5))
    deliver()
    lock = assert(mine:campaign "2")
    assert_sees "2"
  end)

  it("reports nothing again if the events only arrive later", function()
    local deliver = swallow_changes()
    follow(stand "2")
    assert.is_true(lock:proclaim "3")
    observer._read_at = core.now()
    assert_sees "3"
    deliver()
    clients.assert_unchanged(observer, 0.3)
  end)

  it("sends one request and reports nothing if no event is missing", function()
    observer._read_at = core.now()
    local calls = other:stats().calls
    clients.assert_unchanged(observer, 0.5)
    assert.equal(calls + 1, other:stats().calls)
  end)

  it("is ignored if another call has read a newer value before its answer is used", function()
    observer._read_at = core.now()
    local go_on = ask_and_stop(0.5)
    assert.is_true(lock:proclaim "2")
    assert_sees "2"
    assert_fails("timeout", go_on())
  end)

  it("is repeated by the next call if the calling coroutine is dropped", function()
    swallow_changes()
    follow(stand "2")
    observer._read_at = core.now()
    ask_and_stop(5)
    assert_sees "2"
  end)
end)

describe("a read of an observer after a change", function()
  it("is repeated if the leader that it has found resigned before its answer is used", function()
    local second, third = stand "2", stand "3"
    follow(second)
    local go_on = ask_and_stop(5)
    follow(third)
    assert.equal("2", (go_on()))
    assert_sees "3"
  end)

  it("is repeated by the next call if the calling coroutine is dropped", function()
    follow(stand "2")
    ask_and_stop(5)
    assert_sees "2"
  end)

  it("reports no older leader from a call that another call has overtaken", function()
    local second, third = stand "2", stand "3"
    follow(second)
    local go_on = ask_and_stop(0.3)
    follow(third)
    assert_sees "3"
    assert_fails("timeout", go_on())
  end)

  it('fails with "unavailable" while etcd answers from an older revision, every 0.5 s', function()
    local calls, from, restore = other:stats().calls, wait.now(), swallow_changes(true)
    local message = assert_fails("unavailable", observer:next(0.3))
    assert.matches('observer of election "' .. prefix
      .. 'boss": etcd answers from an older revision', message)
    assert.is_true(other:stats().calls - calls <= 1 + math.floor((wait.now() - from) / 0.5))
    for i = 2, 4 do assert.is_true(lock:proclaim(tostring(i))) end
    assert_sees "4"
    restore()
  end)
end)
