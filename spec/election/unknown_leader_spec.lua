-- Tests that observers of elections report when it is unknown who leads, because etcd does not
-- answer, and only then.
-- Needs: one plain member.

-- Seconds: the TTL of the observer's client, and the delay of answers that are still in time. The
-- limit for an answer is a quarter of the TTL; half of this limit is left for a busy machine.
local TTL = wait.ttl(2)
local ANSWER = TTL / 8

-- Seconds; a call of `next` that reports nothing for so long has failed.
local LIMIT = 15 * TTL

local mine, proxy, observer, lock

before_each(function()
  proxy = Swallow.start(etcd:endpoint())
  mine = assert(client:election "boss")
  observer = connect { endpoints = proxy:endpoint(), ttl = TTL, elsewhere = true }
    :election "boss":observe()
end)

local function pack(...) return { n = select("#", ...), ... } end

local function leader(value) return { n = 3, value, lock:key(), lock:token() } end

local function assert_sees(value) assert.same(leader(value), pack(observer:next(LIMIT))) end

-- Lets a candidate lead whose value is |value|, and waits until the observer reports it.
local function lead(value)
  lock = clients.keep(assert(mine:campaign(value)))
  assert_sees(value)
end

local function assert_nobody() assert.same({ n = 1, false }, pack(observer:next(LIMIT))) end

-- Calls observer:next, which must report that it is unknown who leads, after |value| led
-- (false: nobody). Returns the age of this report.
local function assert_unknown(value)
  local results = pack(observer:next(LIMIT))
  local age = table.remove(results, 4)
  assert.equal(4, results.n, results[2])
  results.n = 3
  assert.same(value and leader(value) or { n = 3, false }, results)
  assert.is_true(age >= TTL, "it is known: its age is " .. age)
  return age
end

describe("an observer in an outage of etcd", function()
  -- Regression 260. An observer without a timeout was silent, and so a program showed a leader
  -- that was dead.
  it("reports after the TTL of its client that the leader is unknown, and later the leader",
    function()
      lead "1"
      wait.eventually(function() -- the first try, unless the machine is busy
        proxy:swallow()
        local age = assert_unknown "1"
        assert.is_true(observer:age() >= age)
        assert_fails("unavailable", observer:next(0.3)) -- reported once
        proxy:forward()
        assert_sees "1"
        clients.assert_unchanged(observer, 0.3)
        return age <= TTL + 0.5, "it came after " .. age .. " s"
      end, 20, "a report in time")
    end)

  it("reports the same to calls with a timeout, which are shorter than the TTL", function()
    lead "1"
    proxy:swallow()
    local age
    wait.eventually(function()
      local value, _, code, seconds = observer:next(0.3)
      age = value and seconds
      assert.is_truthy(age or code == "timeout" or code == "unavailable", code)
      return age
    end, TTL, "the report")
    assert.is_true(age >= TTL)
    assert_fails("unavailable", observer:next(0.3))
  end)

  it("reports after it who leads by then, and the same of nobody", function()
    lead "1"
    proxy:swallow()
    assert_unknown "1"
    assert.is_true(lock:resign())
    lock = clients.keep(assert(mine:campaign "2"))
    proxy:forward()
    assert_sees "2"
    assert.is_true(lock:resign())
    assert_nobody()
    proxy:swallow()
    assert_unknown(false)
    proxy:forward()
    assert_nobody()
  end)

  it("reports nothing before the first leader", function()
    assert.is_nil(observer:age())
    clients.assert_unchanged(observer, 0.3)
    assert.is_true(observer:age() < TTL + wait.SLACK)
    proxy:swallow()
    assert_fails("unavailable", observer:next(TTL + 1))
    assert.is_true(observer:age() > TTL)
  end)

  it("asks etcd first if the program has not called it for long", function()
    lead "1"
    proxy:swallow()
    wait.sleep(TTL)
    local from = wait.now()
    assert_unknown "1"
    assert.is_true(wait.now() - from <= TTL / 3 + wait.SLACK)
  end)

  it("with fail_fast reports it once, too", function()
    observer = connect { endpoints = proxy:endpoint(), ttl = TTL, fail_fast = true }
      :election "boss":observe()
    lead "1"
    proxy:swallow()
    wait.eventually(function()
      local value, _, code, unknown_for = observer:next(LIMIT)
      assert.is_truthy(unknown_for or code == "unavailable", code)
      return value
    end, TTL, "the report")
    assert_fails("unavailable", observer:next(LIMIT))
  end)
end)

describe("an observer of an etcd that answers", function()
  -- Regression 261. The leader was read every 10 s only, so most of the time nothing told whether
  -- etcd still answered.
  it("confirms the leader again and again within the TTL", function()
    lead "1"
    for _ = 1, 8 do
      assert_fails("timeout", observer:next(TTL / 3))
      assert.is_true(observer:age() < TTL)
    end
  end)

  it("never reports that the leader is unknown, also if the answers are late, but in time",
    function()
      lead "1"
      proxy:slow(ANSWER)
      assert_fails("timeout", observer:next(3 * TTL))
      assert.is_true(observer:age() < TTL)
    end)

  it("never reports it if the thread that waits stands still for the TTL", function()
    lead "1"
    clients.assert_unchanged(observer, 0.3)
    local client, await = observer._client, observer._client._await
    function client._await(...)
      local results = { await(...) }
      wait.sleep(TTL)
      return (table.unpack or unpack)(results, 1, 3)
    end
    assert_fails("timeout", observer:next(TTL + 0.1))
  end)

  -- Regression 263. When the timeout of a call was over before the answer to its periodic read, the
  -- call said that etcd is unavailable.
  it("never reports it after a time in which the program has not called it", function()
    lead "1"
    proxy:slow(ANSWER)
    for _ = 1, 2 do
      wait.sleep(TTL)
      assert.is_true(observer:age() >= TTL)
      assert_fails("timeout", observer:next(0.4 * TTL)) -- during the second read
      assert.is_true(observer:age() < TTL)
    end
  end)
end)
