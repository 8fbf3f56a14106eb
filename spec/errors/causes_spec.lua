-- Tests the cause that the message of a timeout or of a loss names.

-- Regression 019. The message of a timeout named an outage that was over. If callers of one client
-- contended for a lock, the message said that etcd had not answered. It must name what keeps the
-- lock from the caller at the time of the timeout.
it("a timeout after an outage does not name the outage as its cause", function()
  local etcd = Etcd.start()
  client_options { endpoints = etcd:endpoint(), ttl = 5 }
  local lock = assert(connect { elsewhere = true, ttl = 20 }:lock "a")
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

it('waits in contention within one client fail with "timeout"', function()
  local client = connect { handoff_time = 0.2 }
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

-- Regression 298. If the program saw that its hold had expired before the I/O thread did, the cause
-- was not kept: check named a later failure instead.
describe("a lost hold reports the cause of the loss, not later failures,", function()
  -- Waits for the loss of |lock|; returns its reason.
  local watched_by = {
    ["if the I/O thread sees the loss"] = function(lock) return lock:wait_lost(10) end,
    ["if the program sees the loss first"] = function(lock)
      while lock:held() do end
      return lock:wait_lost(10)
    end,
  }
  for name, await_loss in pairs(watched_by) do
    it(name, function()
      scripted_client { ttl = 2 }
      local lock
      local function fail(text)
        for _, method in ipairs { "LeaseKeepAlive", "LeaseGrant", "Txn" } do
          server:answer(method, "before", error_rows.STATUS.UNAVAILABLE, text)
        end
        server:interrupt("LeaseKeepAlive", error_rows.STATUS.UNAVAILABLE, text)
      end
      local function why() return assert_fails("lost", lock:check()) end
      wait.eventually(function()
        server:pass()
        lock = assert(client:lock("a", { timeout = 10 }))
        fail "etcdserver: request timed out"
        assert.equal("expired", await_loss(lock))
        -- Each of these two causes means that a busy machine, and no scripted answer, has caused
        -- the loss.
        return not why():find "did not run" and not why():find "a keepalive was not answered"
      end, 5, "a loss for what is scripted")
      assert.matches("request timed out", why())
      fail "etcdserver: no leader"
      local asked = assert(client:lock_async "b")
      local function renewals()
        return server:calls "LeaseKeepAlive" + server:calls "LeaseGrant"
      end
      local before = renewals()
      wait.eventually(function() return renewals() > before + 2 end, 10,
        "what fails for another cause")
      assert.matches("request timed out", why())
      server:pass()
      -- The pending lock fails if the old lease has ended together with its key.
      local other = clients.ended(asked) or client:lock("b", { timeout = 10 })
      assert.is_true(other:unlock())
      assert.matches("request timed out", why())
    end)
  end
end)

-- Regression 020. Two messages were wrong. When a hold was lost because its process had been
-- stopped, the message blamed etcd. Text from a server reached the terminal unchanged, with its
-- escape sequences.
it("unlock and check name a stopped process as cause of the loss", function()
  local opts = { endpoints = suite.endpoint(), prefix = prefix, ttl = 2 }
  local sleepers = { remote.start(opts, 2) }
  local asked = { "return lock:unlock()", "return lock:check()" }
  for i, child in ipairs(sleepers) do
    remote.take(child, "a" .. i)
    child:kill "sigstop"
  end
  etcd:await_keys(prefix, 0, 10)
  for i, child in ipairs(sleepers) do
    remote.send(child, asked[i])
    child:kill "sigcont"
    local results = remote.answer_of(child)
    assert.same({ "nil", "lost" }, { results[1], results[3] })
    local cause = "the lease was not proven alive in time: this process did not run for %d+%.%d s$"
    assert.matches(cause, results[2])
  end
end)

it("control characters in a server's text are escaped", function()
  scripted_client()
  server:answer("Txn", "before", error_rows.STATUS.PERMISSION_DENIED,
    "etcdserver: \27[31mred\27[0m \7 bell")
  local message = assert_fails("denied", client:lock "a")
  assert.matches([[etcdserver: \x1b[31mred\x1b[0m \x07 bell]], message, 1, true)
end)

-- Regression 107. If a call that cannot wait gets no answer, the client reads from etcd in the
-- background. (A call in a comparator of table.sort, for example, cannot wait in the coroutine of
-- an event loop.) If this read got no answer either, every later timeout of an observer was
-- reported as "unavailable", although etcd answered again.
describe("an observer", function()
  before_each(function() client_options { ttl = wait.ttl(15), loop = "luv" } end)

  -- Returns the results of a `try_lock` that would stop the event loop if it waited.
  local function try(client, name)
    local results
    coroutine.wrap(function()
      table.sort({ 2, 1 }, function(a, b)
        results = results or { client:try_lock(name) }
        return a < b
      end)
    end)()
    return (table.unpack or unpack)(results, 1, 3) -- luacheck: ignore unpack
  end

  it('returns "timeout" when etcd answers again after an outage', function()
    local observer = client:election "boss":observe()
    assert_fails("timeout", observer:next(0.3))
    finally(function() etcd:resume() end)
    etcd:pause()
    wait.eventually(function() return select(3, try(client, "a")) == "unavailable" end)
    assert_fails("unavailable", client:ping()) -- lasts as long as the read in the background
    etcd:resume()
    wait.eventually(function() return client:ping() end)
    assert_fails("timeout", observer:next(0.3))
    wait.eventually(function()
      local lock, message = try(client, "a")
      return lock and lock:unlock(), message
    end)
  end)
end)
