-- The message of a timeout named an outage that was over. If callers of one client contended for a
-- lock, the message said that etcd had not answered. It must name what keeps the lock from the
-- caller at the time of the timeout.

local Etcd = require "spec.support.servers.etcd"
local clients = require "spec.support.harness.clients"
local rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()

after_each(clients.close_all)

it("regression 019: a timeout after an outage does not name the outage as its cause", function()
  local etcd = Etcd.start()
  finally(function()
    clients.close_all()
    etcd:stop()
  end)
  local connect = clients.connector { endpoints = etcd:endpoint(), prefix = prefix, ttl = 20 }
  local other, client = connect(), connect { elsewhere = true, ttl = 5 }
  local lock = assert(other:lock "a")
  assert(client:lock "b"):unlock()
  etcd:kill()
  -- When this ends, keepalives have failed.
  wait.eventually(function() return client:stats().failed_attempts >= 3 end)
  etcd:restart()
  wait.eventually(function() return client:ping() end, 10, "an answer")
  -- A wait may report that etcd did not answer during this wait, but not the earlier outage.
  local timeouts = 0
  wait.eventually(function()
    local _, message, code = client:lock("a", { timeout = 1 })
    assert.is_true(code == "timeout" or code == "unavailable", code)
    for _, word in ipairs { "refused", "reset" } do assert.is_nil(message:find(word), message) end
    if code == "timeout" then timeouts = timeouts + 1 end
    return timeouts == 3, message
  end, 5, "three waits in which etcd answers")
  assert.is_true(lock:unlock())
end)

-- Lets 20 coroutines of |client| compete for a lock. Returns a table: for each code, how many waits
-- ended with it ("held": granted), and in `message` the message of the last `unavailable`.
local function contend(client)
  local codes, workers = {}, {}
  for i = 1, 20 do
    workers[i] = coroutine.wrap(function()
      for _ = 1, 3 do
        -- The timeout is longer than a busy etcd needs to answer, but shorter than the other
        -- coroutines hold the lock in turn.
        local pending = assert(client:lock_async("a", { timeout = 1, owner = i }))
        local lock, message, code
        repeat
          coroutine.yield(true)
          lock, message, code = pending:step()
        until lock ~= false
        codes[code or "held"] = (codes[code or "held"] or 0) + 1
        if code == "unavailable" then codes.message = message end
        if lock then
          local from = wait.now()
          repeat coroutine.yield(true) until wait.now() > from + 0.12
          assert(lock:unlock())
        end
      end
      return false
    end)
  end
  local busy = #workers
  while busy > 0 do
    for i = 1, 20 do
      if workers[i] and not workers[i]() then
        workers[i], busy = false, busy - 1
      end
    end
  end
  return codes
end

it('regression 019: waits in contention within one client fail with "timeout"', function()
  local client = clients.connector {
    endpoints = suite.endpoint(), prefix = prefix, handoff_time = 0.2,
  } ()
  assert(client:lock "warm"):unlock()
  local codes
  wait.eventually(function()
    local before = client:stats().failed_attempts
    codes = contend(client)
    return client:stats().failed_attempts == before
  end, 5, "an etcd that is never silent meanwhile")
  assert.is_nil(codes.unavailable, codes.message)
  assert.is_true(codes.timeout > 10 and codes.held > 10)
end)

it("regression 019: a lost hold reports the cause of the loss, not later failures", function()
  local server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 2 })
  local lock
  local function fail(text)
    for _, method in ipairs { "LeaseKeepAlive", "LeaseGrant", "Txn" } do
      server:answer(method, "before", rows.STATUS.UNAVAILABLE, text)
    end
    server:interrupt("LeaseKeepAlive", rows.STATUS.UNAVAILABLE, text)
  end
  local function why() return clients.assert_fails("lost", lock:check()) end
  wait.eventually(function()
    server:pass()
    lock = assert(client:lock("a", { timeout = 10 }))
    fail "etcdserver: request timed out"
    assert.equal("expired", lock:wait_lost(10))
    -- Each of these two causes means that a busy machine, and no scripted answer, has caused the
    -- loss.
    return not why():find "did not run" and not why():find "a keepalive was not answered"
  end, 5, "a loss for what is scripted")
  assert.matches("request timed out", why())
  fail "etcdserver: no leader"
  local asked = assert(client:lock_async "b")
  local function renewals() return server:calls "LeaseKeepAlive" + server:calls "LeaseGrant" end
  local before = renewals()
  wait.eventually(function() return renewals() > before + 2 end, 10, "what fails for another cause")
  assert.matches("request timed out", why())
  server:pass()
  -- The pending lock fails if the old lease has ended together with its key.
  local other = clients.ended(asked) or client:lock("b", { timeout = 10 })
  assert.is_true(other:unlock())
  assert.matches("request timed out", why())
end)
