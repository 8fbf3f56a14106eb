-- The second `lock` of one owner returned the permit that the owner already held, instead of
-- another permit. With n = 2, three calls succeeded, and more than n jobs ran at the same time.
-- Needs: one plain member.

local clients = require "spec.support.harness.clients"
local cqueues = require "cqueues"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix }
local assert_fails = clients.assert_fails
local client, two

before_each(function()
  client = connect()
  two = assert(client:semaphore("pool", 2))
end)

after_each(clients.close_all)

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

describe("regression 096: each call takes another permit", function()
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
      local one, other = take_both(function() return clients.granted(two:lock_async(opts)) end)
      local asked = assert(two:lock_async { owner = opts.owner })
      clients.assert_wait(asked)
      assert.is_true(one:unlock())
      assert.is_true(clients.granted(asked):unlock() and other:unlock())
      assert_all_free()
    end)
  end

  it('also if its program holds permits under another n, which count for "deadlock"', function()
    local five = assert(client:semaphore("pool", 5))
    local locks = { assert(five:lock()), assert(five:lock()) }
    assert_fails("deadlock", two:lock())
    locks[#locks + 1] = assert(five:lock())
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
