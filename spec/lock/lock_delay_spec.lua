-- Tests the lock delay (option lock_delay of connect): after a crash of the holder, the lock is
-- granted only after the delay; after a release, the next waiter gets it at once.

local ended, granted = clients.ended, clients.granted

-- Seconds. Without a lock delay, the next waiter would have the lock TTL + 1 s after a crash.
local TTL, DELAY = 2, 4
-- by how much a hold with this TTL ends before its lease
local MARGIN = 0.2

client_options { ttl = TTL }

-- For each kind of lock: how a process with a lock delay acquires it.
local HOLD = {
  lock = "client:lock 'of-lock'",
  try = "client:try_lock 'of-try'",
  read = "client:read_lock 'of-read'",
  write = "client:write_lock 'of-write'",
  permit = "client:semaphore('of-permit', 1):lock()",
  multi = "client:multi_lock { 'of-multi', 'of-multi2' }",
  leader = "client:election('of-leader'):campaign 'me'",
  async = "await(client:lock_async 'of-async')",
  downgraded = [[(function()
    local lock = assert(client:write_lock 'of-downgraded')
    assert(lock:downgrade())
    return lock
  end)()]],
  -- The first owner hands the lock to the second one.
  two = [[(function()
    local first = assert(client:lock('of-two', { owner = 'first' }))
    local asked = client:lock_async('of-two', { owner = 'second' })
    assert(first:unlock())
    local second = await(asked)
    assert(first:token() == second:token())
    return second
  end)()]],
}

-- For some kinds of locks, a function that starts an acquisition that conflicts with the hold. For
-- the others client:lock_async("of-KIND") does that.
local NEXT = {
  read = function(client, opts) return client:write_lock_async("of-read", opts) end,
  write = function(client, opts) return client:read_lock_async("of-write", opts) end,
  permit = function(client, opts) return client:semaphore("of-permit", 1):lock_async(opts) end,
  multi = function(client, opts) return client:lock_async("of-multi2", opts) end,
  leader = function(client, opts)
    return client:election("of-leader"):campaign_async("first", opts)
  end,
}

-- Starts a process with a lock delay of |delay| seconds (nil: DELAY) that acquires the lock of the
-- kind |only| ("all": one of each kind; "none": no lock), and waits until it holds.
local function start(only, delay)
  local child = remote.start {
    endpoints = etcd:endpoints(), prefix = prefix, ttl = TTL, lock_delay = delay or DELAY,
  }
  remote.ask(child, [[
    held = {}
    function await(asked)
      local lock
      repeat lock = asked:step() until lock
      return lock
    end
  ]])
  for kind, call in pairs(HOLD) do
    if only == kind or only == "all" then
      assert.same({ "true" }, remote.ask(child,
        ("held.%s = assert(%s) return true"):format(kind, call), 20))
    end
  end
  return child
end

-- Starts an acquisition by |client| for each kind, with |opts| and a different owner each; returns
-- them by kind.
local function ask_all(client, opts)
  local asked = {}
  for kind in pairs(HOLD) do
    local with = clients.with({ owner = kind }, opts)
    asked[kind] = assert(NEXT[kind] and NEXT[kind](client, with)
      or client:lock_async("of-" .. kind, with))
  end
  return asked
end

describe("the lock delay after a crash", function()
  it("keeps waiters out until it ends, in every lock mode", function()
    local client, child = connect(), start "all"
    local asked = ask_all(client)
    clients.assert_wait(asked.lock, asked.read, asked.permit)
    local from = wait.now()
    child:kill "sigkill"
    for kind, one in pairs(asked) do
      local lock = granted(one)
      local took = wait.now() - from
      assert.is_true(took >= DELAY, kind .. " after " .. took)
      assert.is_true(took <= TTL + DELAY + 1 + wait.SLACK, kind .. " after " .. took)
      assert.is_true(lock:unlock())
    end
    assert.same({}, etcd:keys(prefix))
  end)

  it("also keeps out acquisitions that start during it, of a client with another lock delay",
    function()
      local child = start "all"
      local from = wait.now()
      child:kill "sigkill"
      wait.eventually(function() return wait.now() - from > TTL + 1 end, 5)
      local late = connect()
      for kind, one in pairs(ask_all(late, { timeout = 0 })) do
        local _, message, code = ended(one)
        if wait.now() - from < DELAY then assert.equal("locked", code, kind .. ": " .. message) end
      end
      local lock = granted(connect { lock_delay = 1 }:lock_async "of-lock")
      assert.is_true(wait.now() - from >= DELAY)
      assert.is_true(lock:unlock())
      for _, one in pairs(ask_all(late)) do assert.is_true(granted(one):unlock()) end
    end)

  it("in with_lock keeps etcdctl lock out, too", function()
    local child = start "none"
    remote.send(child, [[
      client:with_lock('of-with', function()
        io.stderr:write "held"
        io.read()
      end)
    ]])
    wait.eventually(function() return child:errors():find "held" end, 10, "a hold")
    local from = wait.now()
    child:kill "sigkill"
    local _, status = etcd:ctl("lock", prefix .. "of-with", "true")
    assert.equal(0, status)
    assert.is_true(wait.now() - from >= DELAY)
  end)

  it("is ended by break_lock", function()
    local client, child = connect(), start("lock", 300)
    local place = client:queue("of-lock")[1]
    assert.equal(300, place.lock_delay)
    child:kill "sigkill"
    local asked = client:lock_async "of-lock"
    clients.assert_wait(asked)
    assert.is_true(client:break_lock("of-lock", place.token))
    assert.is_true(granted(asked):unlock())
    etcd:revoke(place.lease)
  end)
end)

describe("try_lock of a lock whose holder crashed", function()
  it('returns "locked" with one request until the lock delay ends', function()
    local client, child = connect(), start("lock", 30)
    local place, before = client:queue("of-lock")[1], client:stats()
    child:kill "sigkill"
    local message = assert_fails("locked", client:try_lock "of-lock")
    assert.matches('of-lock" is taken', message, 1, true)
    for _, mode in ipairs { "read", "write", "multi" } do
      local name = mode == "multi" and { "of-lock", "of-more" } or "of-lock"
      assert_fails("locked", client["try_" .. mode .. "_lock"](client, name))
    end
    assert.equal(before.tries + 4, client:stats().tries)
    assert.equal(before.audits, client:stats().audits)
    assert.is_true(client:break_lock("of-lock", place.token))
    assert(client:try_lock "of-lock"):unlock()
    etcd:revoke(place.lease)
  end)
end)

describe("a process stopped past its hold deadline", function()
  it("loses its hold; the next one begins after the lock delay", function()
    local client, child = connect(), start "lock"
    local from = wait.now()
    local asked = client:lock_async "of-lock"
    child:kill "sigstop"
    wait.eventually(function() return wait.now() - from > TTL + 0.3 end, 5)
    child:kill "sigcont"
    assert.same({ "false", "lost" }, remote.ask(child, "return held.lock:held()"))
    local lock = granted(asked)
    assert.is_true(wait.now() - from >= DELAY, wait.now() - from)
    assert.is_true(lock:unlock())
    remote.ask(child, "client:close()")
  end)
end)

describe("a hold lost while etcd is unreachable", function()
  -- Regression 315. The lock delay began at the hold deadline. So the command of the next
  -- `etcdlock run` could start a few milliseconds after KILL was sent to that of the last one.
  it("keeps other owners and clients out until the lock delay ends", function()
    local own = suite.start()
    local client = connect { endpoints = own:endpoints(), lock_delay = DELAY }
    local lock = assert(client:lock "a")
    local reader = assert(client:read_lock "b")
    own:pause()
    local over = wait.now() + select(2, lock:held()) + MARGIN + DELAY
    assert.equal("expired", lock:wait_lost(30))
    local _, message, code = client:try_lock("a", { owner = "else" })
    if wait.now() < over then assert.equal("locked", code, message) end
    own:resume()
    local again = assert(client:lock("a", { owner = "else" }))
    assert.is_true(wait.now() >= over)
    assert.is_true(again:unlock())
    local other = connect { endpoints = own:endpoints() }
    assert(other:lock "b"):unlock()
    assert.is_true(wait.now() >= over)
    assert_fails("lost", reader:unlock())
  end)
end)

describe("a hold with a lock delay", function()
  -- Asserts that all acquisitions in |asked| are granted at once: if a lease remained, they would
  -- wait for longer than DELAY. |what| is for the message.
  local function assert_at_once(asked, what)
    local from = wait.now()
    for kind, one in pairs(asked) do
      assert.is_true(granted(one):unlock())
      assert.is_true(wait.now() - from < DELAY, what .. ": " .. kind)
    end
  end

  for word, program in pairs {
    unlock = "for _, lock in pairs(held) do assert(lock:unlock()) end", close = "client:close()",
  } do
    it("is followed at once by the next waiter after " .. word, function()
      local child = start("all", 8)
      local asked = ask_all(client)
      assert.same({ "" }, remote.ask(child, program))
      for _, one in pairs(asked) do assert.is_true(granted(one):unlock()) end
      child:kill "sigkill"
      assert_at_once(ask_all(client), word)
    end)
  end

  it("is followed at once by the next waiter after max_hold", function()
    local one, two = connect { lock_delay = 60 }, connect { elsewhere = true }
    clients.keep(assert(one:lock("a", { max_hold = 0.2 })))
    assert_at_once({ two:lock_async "a" }, "max_hold")
    clients.keep(assert(one:read_lock("a", { max_hold = 0.2 })))
    clients.keep(assert(one:read_lock("a", { max_hold = 0.1, owner = "else" })))
    assert_at_once({ two:lock_async "a" }, "shared")
  end)

  it("costs one request to acquire and one to release, as without", function()
    local client = connect { lock_delay = 5 }
    assert(client:lock "a"):unlock()
    local before = client:stats()
    for _ = 1, 10 do assert(client:lock "a"):unlock() end
    local after = client:stats()
    assert.equal(20, after.enqueues - before.enqueues + after.deletes - before.deletes)
    assert.equal(before.grants, after.grants)
    assert.equal(1, after.grants)
  end)
end)

describe("a client with a lock delay", function()
  it("has a lease that lives longer than its holds, and one only", function()
    local client = connect { ttl = 30, lock_delay = 20 }
    local lock = assert(client:lock "a")
    assert.is_true(select(2, lock:held()) <= 30)
    assert.matches("granted with TTL%(50s%)", (etcd:ctl("lease", "timetolive", lock:lease())))
    assert.is_true((client:alive()))
    assert.equal(lock:lease(), client:lease())
    assert.is_true(lock:unlock())
  end)

  it("refuses linger, because a released lock would block others after a crash", function()
    local message = assert_fails("invalid", connect { lock_delay = 1 }:lock("a", { linger = 1 }))
    assert.matches("linger = 1, wanted none for a client with a lock_delay", message, 1, true)
  end)
end)

-- Returns a client during the lock delay of a hold that it has lost. etcd applies each of its
-- transactions, but `server` answers that it has timed out.
local function lose_hold()
  local client = connect { endpoints = server:endpoint(), ttl = TTL, lock_delay = 60 }
  local lock = assert(client:lock "of-lost")
  server:answer("LeaseKeepAlive", "never", 0, "")
  assert.equal("expired", lock:wait_lost(30))
  server:pass()
  server:answer("Txn", "after", error_rows.STATUS.UNAVAILABLE, "etcdserver: request timed out")
  return client
end

-- Closes |client|, and asserts that etcd then has the key of the lost hold, and none of a waiter.
local function assert_close_keeps_lost_key(client)
  client:close()
  assert.same({}, etcd:keys(prefix .. "of-waiter/"))
  assert.equal(1, #etcd:keys(prefix .. "of-lost/"))
  etcd:revoke_all()
end

-- Regression 245. A client that is closed during the lock delay of a lost hold leaves its lease to
-- expire. If etcd had put the key of a waiter, but the client had no answer and was about to repeat
-- the put, it left that key, which blocked others until the lease ended.
it("close after a lost hold deletes a key whose put has an unknown outcome", function()
  local client = lose_hold()
  clients.keep(assert(client:lock_async "of-waiter"))
  etcd:await_keys(prefix .. "of-waiter/", 1)
  assert_close_keeps_lost_key(client)
end)

-- Regression 256. As 245, but the waiter had left before: nothing in the client knew the key any
-- more, and the audit that would have found it came later.
it("close after a lost hold deletes a key that an earlier waiter has left", function()
  local client = lose_hold()
  assert_fails("unavailable", client:lock("of-waiter", { timeout = 0.1 }))
  etcd:await_keys(prefix .. "of-waiter/", 1)
  server:pass()
  assert_close_keeps_lost_key(client)
end)

it("a lock call with lock_delay raises an error that names etcdlock.connect", function()
  local _, message = pcall(connect().lock, connect(), "a", { lock_delay = 1 })
  assert.matches("lock_delay.*etcdlock.connect", message)
end)
