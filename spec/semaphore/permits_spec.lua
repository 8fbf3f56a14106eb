-- Tests the permits of programs with different n, of one owner, and among very many keys.
-- Needs: one plain member, cqueues.

-- Regression 095. While a permit of a semaphore was held or waited for with one n, each call with
-- another n failed with "conflict". So a new version of a program could not start beside the old
-- one.
local assert_wait = clients.assert_wait
local granted = clients.granted
local three, five

before_each(function()
  three = assert(client:semaphore("pool", 3))
  five = assert(connect { elsewhere = true }:semaphore("pool", 5))
end)

local function take(semaphore, n)
  local locks = {}
  for i = 1, n do locks[i] = assert(semaphore:lock { timeout = 10, owner = {} }) end
  return locks
end

-- Starts a wait. Returns when its key, the |nth| of all keys, is in etcd.
local function ask(semaphore, nth)
  local asked = assert(semaphore:lock_async { owner = {} })
  etcd:await_keys(prefix, nth)
  return asked
end

local function unlock_all(locks)
  for _, lock in ipairs(locks) do assert.is_true(lock:unlock()) end
  assert.same({}, etcd:keys(prefix))
end

it("programs with n = 3 and n = 5 hold 5 permits together, and not more", function()
  local locks = take(three, 3)
  assert.same({ 0, 2 }, { three:available(), five:available() })
  for _, lock in ipairs(take(five, 2)) do locks[#locks + 1] = lock end
  assert.equal(0, five:available())
  assert_fails("locked", three:try_lock { owner = {} })
  assert_fails("locked", five:try_lock { owner = {} })
  -- The first wait is queued in its client, so it adds no key.
  assert_wait(assert(three:lock_async { owner = {} }), ask(five, 6))
  for _, lock in ipairs(locks) do assert.is_true(lock:check()) end
end)

it("the smaller n waits until fewer than that many are before it", function()
  local locks = take(five, 5)
  local asked = ask(three, 6)
  for _ = 1, 2 do
    assert.is_true(table.remove(locks):unlock())
    assert_wait(asked)
  end
  assert.is_true(table.remove(locks):unlock())
  locks[#locks + 1] = granted(asked)
  unlock_all(locks)
end)

it("the larger n is granted before an older waiter with the smaller n", function()
  local locks = take(five, 3)
  local asked = ask(three, 4)
  locks[#locks + 1] = take(five, 1)[1]
  assert.is_true(locks[4]:held())
  assert_wait(asked)
  assert.is_true(table.remove(locks, 1):unlock())
  locks[#locks + 1] = granted(asked)
  unlock_all(locks)
end)

it("one client may name several numbers, also for tries", function()
  local one = assert(client:semaphore("pool", 1))
  local locks = take(three, 1)
  assert_fails("locked", one:try_lock { owner = {} })
  local asked = ask(one, 2)
  assert_wait(asked)
  locks[#locks + 1] = assert(three:try_lock { owner = {} })
  assert.is_true(table.remove(locks, 1):unlock())
  locks[#locks + 1] = granted(asked)
  unlock_all(locks)
end)

it("client:queue and break_lock tell holders by the n of each entry", function()
  local locks = take(five, 3)
  local asked = ask(three, 4)
  locks[#locks + 1] = take(five, 1)[1]
  local places = assert(client:queue "pool")
  local held = {}
  for i, place in ipairs(places) do held[i] = place.held end
  assert.same({ true, true, true, false, true }, held)
  assert_fails("not_held", client:break_lock("pool", places[4].token))
  assert.is_true(client:break_lock("pool", places[1].token))
  assert.equal("deleted", table.remove(locks, 1):wait_lost(5))
  locks[#locks + 1] = granted(asked)
  unlock_all(locks)
end)

-- Regression 096. The second `lock` of one owner returned the permit that the owner already held,
-- instead of another permit. With n = 2, three calls succeeded, and more than n jobs ran at the
-- same time.
describe("each call takes another permit", function()
  local two

  before_each(function() two = assert(client:semaphore("pool", 2)) end)

  local function assert_all_free()
    assert.equal(2, two:available())
    assert.same({}, etcd:keys(prefix))
  end

  -- Takes two permits by |call|, and asserts that they are two different permits.
  local function take_both(call)
    local one, other = assert(call()), assert(call())
    assert.is_false(one == other or one:key() == other:key())
    assert.same({ 1, 1, 0 }, { one:count(), other:count(), two:available() })
    return one, other
  end

  for _, owner in ipairs { "job", false } do
    local opts = { timeout = 5, owner = owner or nil }
    local whose = owner and " of a named owner" or ""

    it('with lock, and fails with "deadlock" if its program holds all' .. whose, function()
      local one, other = take_both(function() return two:lock(opts) end)
      assert_fails("deadlock", two:lock { owner = opts.owner })
      assert_fails("deadlock", two:lock(opts))
      assert.is_true(one:unlock())
      one = assert(two:lock(opts))
      assert.is_true(one:unlock() and other:unlock())
      assert_fails("not_held", one:unlock())
      assert_all_free()
    end)

    it('with try_lock, and fails with "locked" if none is free' .. whose, function()
      local one, other = take_both(function() return two:try_lock { owner = opts.owner } end)
      assert_fails("locked", two:try_lock { owner = opts.owner })
      assert.is_true(one:unlock() and other:unlock())
      assert_all_free()
    end)

    it("with with_lock inside with_lock, which never runs without one" .. whose, function()
      local free, inner = {}, nil
      assert(two:with_lock(opts, function()
        free[1] = two:available()
        assert(two:with_lock(opts, function()
          free[2] = two:available()
          inner = { two:with_lock(opts, function() free[3] = true end) }
        end))
        free[3] = two:available()
      end))
      assert.same({ 1, 0, 1 }, free)
      assert_fails("deadlock", (table.unpack or unpack)(inner, 1, 3))
      assert_all_free()
    end)

    it("with lock_async, and waits if none is free" .. whose, function()
      local one, other = take_both(function() return granted(two:lock_async(opts)) end)
      local asked = assert(two:lock_async { owner = opts.owner })
      assert_wait(asked)
      assert.is_true(one:unlock())
      assert.is_true(granted(asked):unlock() and other:unlock())
      assert_all_free()
    end)
  end

  it('also if its program holds permits under another n, which count for "deadlock"', function()
    local of_five = assert(client:semaphore("pool", 5))
    local locks = { assert(of_five:lock()), assert(of_five:lock()) }
    assert_fails("deadlock", two:lock())
    locks[#locks + 1] = assert(of_five:lock())
    for _, lock in ipairs(locks) do assert.is_true(lock:unlock()) end
    assert_all_free()
  end)

  it("in a worker pool whose dispatcher takes the permits, so that n jobs run", function()
    local loop, running, most, ran = cqueues.new(), 0, 0, 0
    loop:wrap(function()
      for _ = 1, 16 do
        local permit = assert(two:lock { timeout = 30 })
        running = running + 1
        most = math.max(most, running)
        loop:wrap(function()
          cqueues.sleep(0.01)
          running, ran = running - 1, ran + 1
          assert(permit:unlock())
        end)
      end
    end)
    assert(loop:loop())
    assert.same({ 2, 16 }, { most, ran })
    assert_all_free()
  end)
end)

-- Regression 059. The client counted the older permit keys of a semaphore in 16 bits. If there were
-- 65,536 older keys, it counted 0 and took a permit. In this test the scripted server answers
-- instead of etcd, because etcd may need more than the 2 s of a try to list so many keys.
it("try_lock behind 65,536 permit keys finds the semaphore locked", function()
  scripted_client { ttl = 60 }
  assert(client:lock "warm"):unlock()
  local pool = assert(client:semaphore("pool", 1))
  -- Returns the response to a read with the encoded |content|.
  local function range(content) return protobuf.bytes(3, protobuf.bytes(1, content)) end
  -- The client does not compare the keys of a list, so one key can stand for all. Its lease is 7.
  server:forge("Txn", range "" .. range(protobuf.bytes(2,
    protobuf.bytes(1, prefix .. "pool/permit/7-1.1")
      .. protobuf.number(2, 1) .. protobuf.number(6, 7)):rep(65536)))
  assert_fails("locked", clients.answered(pool.try_lock, pool))
end)

-- Regression 150. A waiter that read the queue of a semaphore read it again if a key was put or
-- deleted meanwhile, even if the read had shown that no key was in its way. On a slow line, beside
-- clients that took and released permits all the time, it was never granted the free permit.
describe("a waiter", function()
  after_each(function() etcd:del_all(prefix) end)

  it("gets a free permit beside others that come and go", function()
    local proxy = Swallow.start(suite.endpoint())
    local options = { endpoints = suite.endpoint(), prefix = prefix, ttl = 30 }
    local first, second, third = remote.start(options, 3)
    for _, child in ipairs { first, second, third } do
      remote.ask(child, "semaphore = client:semaphore('a', 2)")
    end
    remote.ask(first, "lock = assert(semaphore:lock())")
    remote.ask(second, "lock = assert(semaphore:lock())")
    proxy:slow(0.15)
    local far = connect { endpoints = proxy:endpoint(), ttl = 30 }
    local pending = assert(assert(far:semaphore("a", 2)):lock_async())
    etcd:await_keys(prefix .. "a/", 3)
    remote.ask(first, "lock:unlock()") -- far's permit is free from now on
    local busy = [[
      lock = lock and lock:unlock() and nil
      local ends = os.time() + 7
      while os.time() < ends do assert(semaphore:lock()):unlock() end
    ]]
    local from = wait.now()
    for _, child in ipairs { second, third } do remote.send(child, busy) end
    clients.keep((clients.granted(pending)))
    assert.is_true(wait.now() - from < 5, "granted while the others are busy")
    for _, child in ipairs { second, third } do remote.answer_of(child, 60) end
    for _, child in ipairs { first, second, third } do remote.ask(child, "client:close()") end
  end)
end)

-- Regression 274. If programs gave one semaphore different numbers of permits, neither a call nor
-- the log said so.
describe("a client that gives another number of permits than others", function()
  local told

  local function connect_told()
    told = {}
    return connect { log = function(event)
      if event.event == "permits_differ" then told[#told + 1] = event end
    end }
  end

  it("logs this once for each semaphore, with both numbers and the process of the other", function()
    local pools = {}
    local client = connect_told()
    for i, name in ipairs { "pool", "same", "last" } do
      pools[i] = assert(client:semaphore(name, 3))
    end
    clients.keep(assert(five:lock()))
    clients.keep(assert(assert(other:semaphore("same", 3)):lock()))
    clients.keep(assert(assert(other:semaphore("last", 1)):lock()))
    assert(pools[1]:lock()):unlock()
    assert(pools[2]:lock()):unlock()
    assert(pools[1]:try_lock()):unlock()
    assert.equal(1, #told)
    local event = told[1]
    assert.same({ prefix .. "pool", "permit", "warn", 3, 5, core.host(), core.pid() }, { event.name,
      event.mode, event.level, event.permits, event.other.permits, event.other.host,
      event.other.pid })
    assert.matches(('^etcdlock: semaphore "%spool": the number of permits is 3 in this client, and '
      .. "5 in pid %d on [^ ]+, queued since [%%d :-]+; give the same number everywhere, ")
      :format(prefix, core.pid()), tostring(event))
    assert(pools[3]:lock()):unlock()
    assert.equal(2, #told)
  end)

  it("names both numbers in the message of a call that gets no permit", function()
    local client = connect_told()
    local one = assert(client:semaphore("pool", 1))
    clients.keep(assert(five:lock()))
    local both = "; the number of permits is 1 in this client, and 5 in pid %d+ on "
    assert.matches("has no free permit" .. both, (assert_fails("locked", one:try_lock())))
    local asked = assert(one:lock_async { timeout = 1, owner = {} })
    local _, message = clients.ended(asked)
    assert.matches("was not free within 1 s; holder[^;]*" .. both, message)
  end)

  -- Regression 329. The client copied the value of the key from a null pointer if it is empty,
  -- which the sanitizer for undefined behaviour reports.
  for _, value in ipairs { "theirs", "" } do
    it(("knows the number also if another client wrote the key, with the value %q"):format(value),
      function()
        local lease = etcd:grant(60)
        etcd:put(("%spool/permit/%s.2"):format(prefix, lease), value, lease)
        assert(connect_told():semaphore("pool", 3):lock()):unlock()
        assert.matches("is 3 in this client, and 2 in another one; ", tostring(told[1]))
        etcd:revoke(lease)
      end)
  end

  -- Regression 322. Outside of nginx, without the option `log`, nothing reported the two numbers.
  it("is named once by a line on standard error if its client has no log", function()
    clients.keep(assert(five:lock()))
    local _, code, err = proc.run_lua("spec/support/programs/child.lua", { ([[
      local client = require("etcdlock").connect { endpoints = %q, prefix = %q }
      local pool = client:semaphore("pool", 3)
      for _ = 1, 2 do assert(pool:lock()):unlock() end
      client:close()]]):format(suite.endpoint(), prefix) })
    assert.equal(0, code, err)
    assert.matches(('^etcdlock: semaphore "%spool": the number of permits is 3 in this client, and '
      .. "5 in pid %d on [^\n]+\n$"):format(prefix, core.pid()), err)
  end)
end)
