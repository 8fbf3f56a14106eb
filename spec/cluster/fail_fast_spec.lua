-- Tests clients with and without fail_fast in an outage.

-- Regression 028. While etcd was known to be unreachable, each call still waited for its full
-- timeout. A program that preferred to continue without the lock could not avoid this wait. The
-- option fail_fast now avoids it.
local LONG = 60 -- seconds; the timeout of calls that must fail long before it
local SOON = 2 -- seconds that try_lock and unlock would wait for etcd without fail_fast
local etcd

client_options(function() return { endpoints = etcd:endpoint(), fail_fast = true } end)

before_each(function() etcd = Etcd.start() end)

-- Asserts that call() returns "unavailable" within |SOON| s; returns its message.
local function assert_fails_fast(call)
  local from = wait.now()
  local message = assert_fails("unavailable", call())
  local took = wait.now() - from
  assert.is_true(took < SOON, took)
  return message
end

local function await_lock(client, name)
  return wait.eventually(function() return client:lock(name, { timeout = 0.5 }) end, 5, "a lock")
end

it("with fail_fast, calls fail at once while etcd is down, then succeed", function()
  local client = connect { ttl = 20 }
  local lock = assert(client:lock "a")
  etcd:kill()
  -- The first call finds that etcd is unreachable: its connection ends or is reset, or a new one is
  -- refused.
  local message = assert_fails_fast(function() return client:lock("b", { timeout = LONG }) end)
  assert.is_true(etcd:is_named(message), message)
  for _ = 1, 20 do
    assert.matches('^lock "' .. prefix .. 'b": ',
      assert_fails_fast(function() return client:lock "b" end))
    assert_fails_fast(function() return client:try_lock "b" end)
    assert_fails_fast(function() return lock:put("x", "y") end)
    assert_fails_fast(function() return client:queue "a" end)
    assert_fails_fast(function() return client:ping() end)
    assert_fails_fast(function() return client:get "x" end)
  end
  assert.is_true(lock:held())
  assert_fails_fast(function() return lock:unlock() end)
  etcd:restart()
  assert(await_lock(client, "b"):unlock())
  assert.is_number(client:ping())
end)

it("with fail_fast, a wait for another holder fails if etcd dies", function()
  local client = connect { ttl = 3 }
  local lock = assert(other:lock "a")
  local pending = assert(client:lock_async("a", { timeout = LONG }))
  wait.eventually(function() return #client:queue "a" == 2 end)
  etcd:kill()
  assert_fails("unavailable", clients.ended(pending, 5))
  assert.is_true(lock:held())
end)

it("with fail_fast, lock fails at once if etcd is paused", function()
  local client = connect()
  assert(client:lock "a"):unlock()
  etcd:pause()
  assert_fails_fast(function() return client:lock("a", { timeout = LONG }) end)
  assert_fails_fast(function() return client:lock("a", { timeout = LONG }) end)
  etcd:resume()
  assert(await_lock(client, "a"):unlock())
end)

it("with fail_fast, lock fails at once if etcd was never reached", function()
  local client = connect { endpoints = "127.0.0.1:" .. port.free() }
  assert_fails_fast(function() return client:lock "a" end)
  assert_fails_fast(function() return client:with_lock("a", { timeout = LONG }, error) end)
end)

it('with fail_fast, lock after close returns "closed" in an outage', function()
  local client = connect()
  etcd:kill()
  assert_fails_fast(function() return client:lock("a", { timeout = LONG }) end)
  client:close()
  assert_fails("closed", client:lock "a")
end)

it("with fail_fast, a known outage expires, and lock asks etcd again", function()
  local client = connect { ttl = 2 }
  assert(client:lock "a"):unlock()
  etcd:kill()
  assert_fails_fast(function() return client:lock("a", { timeout = LONG }) end)
  wait.eventually(function() return not client:alive() end, 5, "the end of the session")
  etcd:restart()
  wait.eventually(function() return not client._core:outage() end, 5, "forgotten")
  assert(client:lock("a", { timeout = 5 })):unlock()
end)

it("without fail_fast, lock waits for its full timeout in an outage", function()
  local client = connect { fail_fast = false }
  assert(client:lock "a"):unlock()
  etcd:kill()
  local from = wait.now()
  assert_fails("unavailable", client:lock("b", { timeout = 1 }))
  assert.is_true(wait.now() - from >= 1)
end)

-- Regression 210. If the client waits more than 3 s for an answer, because etcd is far away, a
-- request that the health check ended counted as a slow one. So a wait failed only with its next
-- attempt.
it("with fail_fast, a wait fails with its first attempt if a distant etcd falls silent", function()
  local proxy = Swallow.start(etcd:endpoint())
  local client = connect { endpoints = proxy:endpoint(), ttl = 60 }
  proxy:jitter(0.5, 0.5)
  assert(client:lock("a", { timeout = LONG })):unlock()
  local first = assert(client:lock_async("b", { timeout = LONG }))
  wait.sleep(0.85) -- the next request leaves just before the answer to this one comes
  local second = assert(client:lock_async("c", { timeout = LONG }))
  wait.eventually(function() return first:step() end, 5, "the lock b")
  proxy:swallow()
  assert_fails("unavailable", clients.ended(second, 15))
  assert.equal(1, client:stats().failed_attempts)
end)
