-- Tests semaphores: at most n permits are held at a time, and they are granted in queue order.

local assert_wait = clients.assert_wait
local granted = clients.granted
local mine, theirs

before_each(function()
  mine, theirs = assert(client:semaphore("pool", 3)), assert(other:semaphore("pool", 3))
end)

local function take(semaphore, owner)
  return assert(semaphore:lock { timeout = 10, owner = owner or {} })
end

local function ask(semaphore) return assert(semaphore:lock_async { owner = {} }) end

describe("a semaphore", function()
  it("grants at most n permits to all clients together", function()
    assert.equal(3, mine:available())
    local locks = { take(mine), take(theirs), take(mine) }
    for i, lock in ipairs(locks) do
      assert.is_true(lock:check())
      assert.equal("permit", lock:mode())
      assert.is_true(i == 1 or lock:token() > locks[i - 1]:token())
    end
    assert.equal(0, theirs:available())
    assert_fails("locked", mine:try_lock { owner = "x" })
    assert_fails("locked", theirs:try_lock { owner = "x" })
    assert_fails("timeout", clients.answered(mine.lock, mine, { owner = "x", timeout = 1 }))
    assert.is_true(locks[2]:unlock())
    wait.eventually(function() return mine:available() == 1 end, 5, "the end of the waiter's key")
    assert.is_true(assert(theirs:try_lock { owner = "x" }):unlock())
    for _, i in ipairs { 1, 3 } do assert.is_true(locks[i]:unlock()) end
    assert.equal(3, mine:available())
    assert.same({}, etcd:keys(prefix))
  end)

  it("grants n tries made at the same time, even before the client has a lease", function()
    local asked, fresh = {}, assert(connect():semaphore("pool", 3))
    for i = 1, 3 do asked[i] = assert(fresh:lock_async { owner = i, timeout = 0 }) end
    for _, one in ipairs(asked) do assert.is_true(granted(one):unlock()) end
  end)

  it("with one permit stays exclusive while 40 locks are held on names below its own", function()
    local one, theirs_one = assert(client:semaphore("pool", 1)), assert(other:semaphore("pool", 1))
    for i = 1, 40 do clients.keep(assert(other:lock("pool/permit/x" .. i))) end
    local lock = take(theirs_one)
    assert_fails("locked", one:try_lock { owner = 1 })
    local asked = ask(one)
    etcd:await_keys(prefix, 42)
    assert_wait(asked)
    assert.equal(0, one:available())
    assert.is_true(lock:unlock())
    assert.is_true(granted(asked):unlock())
    assert.is_true(assert(one:try_lock()):unlock())
  end)

  it("grants a waiter in etcd's queue before a later waiter of the same client", function()
    local patient, theirs_two = connect { handoff_time = 60 }, assert(other:semaphore("pool", 2))
    local pool = assert(patient:semaphore("pool", 2))
    local mine_first, theirs_first = take(pool), take(theirs_two)
    local first = ask(pool)
    etcd:await_keys(prefix, 3)
    local second = ask(pool)
    assert_wait(first, second)
    assert.is_true(mine_first:unlock())
    first = granted(first)
    assert_wait(second)
    assert.is_true(theirs_first:unlock())
    assert.is_true(granted(second):unlock())
    assert.is_true(first:unlock())
  end)

  it("grants waiters of several clients in queue order", function()
    -- One client has at most n keys in etcd; its further waiters are queued locally.
    local locks = { take(mine), take(mine), take(theirs) }
    local asked = {}
    for i, pool in ipairs { theirs, mine, theirs } do
      asked[i] = ask(pool)
      etcd:await_keys(prefix, 3 + i)
    end
    for i = 1, 3 do
      assert_wait((table.unpack or unpack)(asked, i))
      assert.is_true(table.remove(locks, 2):unlock())
      locks[3] = granted(asked[i])
    end
    for _, lock in ipairs(locks) do assert.is_true(lock:unlock()) end
    assert.same({}, etcd:keys(prefix))
  end)

  it("no longer counts cancelled waiters", function()
    local pools, locks, asked = {}, { take(mine), take(mine), take(mine) }, {}
    for i = 1, 6 do
      pools[i] = assert(connect { elsewhere = true }:semaphore("pool", 3))
      asked[i] = ask(pools[i])
      etcd:await_keys(prefix, 3 + i)
    end
    for _, i in ipairs { 2, 3, 5 } do asked[i]:cancel() end
    etcd:await_keys(prefix, 6)
    for _, i in ipairs { 1, 4, 6 } do
      assert_wait(asked[i])
      assert.is_true(table.remove(locks):unlock())
      asked[i] = granted(asked[i])
    end
    for _, i in ipairs { 1, 4, 6 } do assert.is_true(asked[i]:unlock()) end
    assert.same({}, etcd:keys(prefix))
  end)

  it('fails with "deadlock" if the blocking process holds all permits', function()
    local locks = { take(mine, 1), take(mine, 2), take(mine, 3) }
    local message = assert_fails("deadlock", mine:lock { owner = 4 })
    assert.matches("this program, with all permits", message, 1, true)
    assert.is_true(table.remove(locks):unlock())
    locks[3] = take(theirs, 4)
    -- This is no deadlock, because the other client may unlock its permit.
    assert_fails("timeout", clients.answered(mine.lock, mine, { owner = 5, timeout = 1 }))
    for _, lock in ipairs(locks) do assert.is_true(lock:unlock()) end
  end)

  it("hands off permits between owners of one client without a new key", function()
    local patient = connect { handoff_time = 60 }
    local pool = assert(patient:semaphore("pool", 2))
    local locks = { take(pool), take(pool) }
    local asked = {}
    for i = 1, 10 do asked[i] = ask(pool) end
    local before
    wait.eventually(function()
      before = patient:stats()
      return before.waiting == 10
    end, 5, "all wait")
    for i = 1, 10 do
      assert.is_true(table.remove(locks, 1):unlock())
      locks[2] = granted(asked[i])
      assert.is_true(locks[2]:check())
    end
    assert.equal(before.enqueues, patient:stats().enqueues)
    for _, lock in ipairs(locks) do assert.is_true(lock:unlock()) end
  end)

  it("is independent of a lock with the same name", function()
    local lock = assert(client:lock "pool")
    local permit = take(mine)
    assert_fails("locked", other:try_lock "pool")
    local places = assert(other:queue "pool")
    assert.same({ "lock", true, "permit", true },
      { places[1].mode, places[1].held, places[2].mode, places[2].held })
    assert.is_true(lock:unlock())
    assert.is_true(permit:unlock())
  end)

  it("supports put, delete, max_hold and with_lock for its permits", function()
    local lock = take(mine)
    assert.is_true(lock:put(prefix .. "data", "v"))
    assert.is_true(lock:delete(prefix .. "data"))
    assert.is_true(lock:unlock())
    local brief = assert(mine:lock { max_hold = 0.1 })
    assert.equal("max_hold", brief:wait_lost(5))
    wait.eventually(function() return mine:available() == 3 end, 5, "given back")
    assert.same({ true, "done" }, { mine:with_lock(function(permit)
      assert.is_true(permit:held())
      return "done"
    end) })
    assert.same({ true, 2 }, { mine:with_lock({ timeout = 5 }, function()
      return theirs:available()
    end) })
    assert.same({}, etcd:keys(prefix))
  end)

  -- Regression 310. Messages about a permit began with `semaphore` during its wait, and with `lock`
  -- after its grant.
  it("is called a semaphore in all messages about its permits", function()
    local events = {}
    local own = connect { log = function(event) events[#events + 1] = event end }
    local lock = assert(own:semaphore("pool", 1):lock())
    local function assert_named(message)
      assert.equal('semaphore "' .. prefix .. 'pool"', message:match '^[^"]*"[^"]*"', message)
    end
    assert_named(assert_fails("locked", own:semaphore("pool", 1):try_lock { owner = 1 }))
    assert_named(assert_fails("timeout", lock:wait_lost(0)))
    assert_named(assert_fails("invalid", lock:put(prefix .. "data", ("v"):rep(2000000))))
    assert.is_true(other:break_lock("pool", lock:token()))
    assert.equal("deleted", lock:wait_lost(5))
    assert_named(assert_fails("lost", lock:check()))
    assert_named(assert_fails("lost", lock:unlock()))
    assert_named(assert_fails("not_held", lock:unlock()))
    lock = assert(own:semaphore("pool", 1):lock())
    own:close()
    assert_named(assert_fails("closed", lock:check()))
    for _, event in ipairs(events) do assert_named((tostring(event):gsub("^etcdlock: ", ""))) end
    assert.is_true(#events > 1, #events)
  end)

  it("returns its name and number of permits, and refuses invalid arguments", function()
    assert.equal('etcdlock.semaphore "' .. prefix .. 'pool" (3 permits)', tostring(mine))
    assert.same({ "pool", 3 }, { mine:name(), mine:permits() })
    assert.equal('etcdlock.semaphore "' .. prefix
      .. 'pool" (1 permit)', tostring(client:semaphore("pool", 1)))
    for _, n in ipairs { 0, -1, 1.5, 1001, 0 / 0 } do
      local message = assert_fails("invalid", client:semaphore("pool", n))
      assert.matches("wanted a whole number from 1 to 1000", message, 1, true)
    end
    assert.has_error(function() client:semaphore "pool" end)
    assert.has_error(function() client:semaphore("pool", "3") end)
    assert.has_error(function() mine.lock() end)
    assert_fails("invalid", client:semaphore("", 3))
    assert.matches("linger", assert_fails("invalid", mine:lock { linger = 1 }), 1, true)
  end)
end)
