-- Tests one lock: its acquisition, the methods of its handle, and its release.

describe("a free lock", function()
  it("is acquired by lock, and its key is deleted by unlock", function()
    local lock = assert(client:lock "a")
    assert.is_true(lock:held())
    assert.same({ lock:key() }, etcd:keys(prefix))
    assert.is_true(lock:unlock())
    assert.same({ false, "not_held" }, { lock:held() })
    assert.same({}, etcd:keys(prefix))
  end)

  it("is acquired by try_lock, and by another client's try_lock after unlock", function()
    local lock = assert(client:try_lock "a")
    assert.is_true(lock:held())
    assert_fails("locked", other:try_lock "a")
    assert.is_true(lock:unlock())
    assert.is_true(assert(other:try_lock "a"):unlock())
  end)

  it("may have a name of any bytes", function()
    for _, name in ipairs {
      " ", "/", "a/", "/a", "a//b", "-x", "\n", "\255\254", "größe", "%s", "a\"b", "0", "..",
    } do
      local lock = assert(client:lock(name))
      assert.equal(name, lock:name())
      assert.equal(prefix .. name .. "/" .. lock:lease(), lock:key())
      assert_fails("locked", other:try_lock(name))
      assert.is_true(lock:unlock())
    end
  end)
end)

describe("an acquisition", function()
  it('of a held lock by try_lock, or with timeout = 0, returns "locked"', function()
    clients.keep(assert(other:lock "a"))
    local message = assert_fails("locked", client:try_lock "a")
    assert.matches('"' .. prefix .. 'a"', message, 1, true)
    assert_fails("locked", client:lock("a", { timeout = 0 }))
  end)

  it('of a held lock returns "timeout" after its timeout and deletes its entry', function()
    clients.keep(assert(other:lock "a"))
    local from
    local message = assert_fails("timeout", clients.answered(function()
      from = wait.now()
      return client:lock("a", { timeout = 1 })
    end))
    local waited = wait.now() - from
    assert.is_true(waited >= 1 and waited < 1 + wait.SLACK, waited)
    assert.matches('lock "' .. prefix .. 'a" ', message, 1, true)
    assert.matches(" 1 s", message, 1, true)
    etcd:await_keys(prefix, 1)
  end)

  it("of a held lock uses the client's timeout unless the call names one", function()
    local impatient, hasty = connect { timeout = 1 }, connect { timeout = 0 }
    clients.keep(assert(other:lock "a"))
    assert_fails("timeout", clients.answered(impatient.lock, impatient, "a"))
    assert_fails("locked", hasty:lock "a")
    assert_fails("timeout", clients.answered(hasty.lock, hasty, "a", { timeout = 1 }))
    assert_fails("locked", impatient:lock("a", { timeout = 0 }))
  end)

  it("accepts any positive timeout, also 1e300 and math.huge", function()
    for _, timeout in ipairs { 1e9, 1e300, math.huge, 3.7 } do
      assert.is_true(assert(client:lock("a", { timeout = timeout })):unlock())
    end
  end)
end)

describe("a held lock", function()
  it("returns its name, key, lease and token", function()
    local lock = assert(client:lock "a")
    assert.equal("a", lock:name())
    assert.equal(client:lease(), lock:lease())
    assert.equal(prefix .. "a/" .. lock:lease(), lock:key())
    local value, revision = etcd:get(lock:key())
    assert.equal(revision, lock:token())
    assert.matches("^%d+$", tostring(lock:token()))
    assert.matches("^{.*}$", value)
  end)

  it("returns the seconds to its hold deadline from held and remaining", function()
    local lock = assert(connect { ttl = 5 }:lock "a")
    local held, left = lock:held()
    assert.is_true(held)
    assert.is_true(left > 2 and left < 5, left)
    assert.is_true(math.abs(lock:remaining() - left) < 0.5)
  end)

  it("returns from check its remaining time and etcd's current revision", function()
    local lock = assert(client:lock "a")
    local held, left, revision = lock:check()
    assert.is_true(held)
    assert.is_true(left > 0)
    assert.is_true(revision >= lock:token())
    assert.is_true(lock:put(prefix .. "data", "1"))
    assert.equal(revision + 1, (select(3, lock:check())))
    assert.is_true((lock:delete(prefix .. "data")))
  end)

  it("shows its name, state, token and count as a string", function()
    local lock = assert(client:lock "a")
    assert.equal(('etcdlock.lock "' .. prefix
      .. 'a" (held, token %d, count 1)'):format(lock:token()),
      tostring(lock))
    lock:unlock()
    assert.equal('etcdlock.lock "' .. prefix .. 'a" (not_held)', tostring(lock))
  end)
end)

describe("an unlocked lock", function()
  it('returns "not_held" from its methods and keeps its token and key', function()
    local lock = assert(client:lock "a")
    local token, key = lock:token(), lock:key()
    assert.is_true(lock:unlock())
    for _ = 1, 2 do assert_fails("not_held", lock:unlock()) end
    assert_fails("not_held", lock:on_lost(error))
    assert_fails("not_held", lock:wait_lost(5))
    assert_fails("not_held", lock:put(prefix .. "data", "v"))
    assert_fails("not_held", lock:get(prefix .. "data"))
    assert_fails("not_held", lock:delete(prefix .. "data"))
    assert_fails("not_held", lock:txn { { "get", "k" } })
    assert.same({ false, "not_held" }, { lock:held() })
    assert_fails("not_held", lock:check())
    assert.equal(0, lock:remaining())
    assert.equal(0, lock:count())
    assert.same({ token, key }, { lock:token(), lock:key() })
    assert.is_nil(etcd:get(prefix .. "data"))
  end)

  it("cannot release the hold of a later holder", function()
    local first = assert(client:lock "a")
    first:unlock()
    local second = assert(client:lock "a")
    assert.not_equal(first, second)
    assert_fails("not_held", first:unlock())
    assert.is_true(second:held())
    assert.is_true(second:check())
    second:unlock()
    local third = assert(other:lock "a")
    assert_fails("not_held", first:unlock())
    assert_fails("not_held", second:unlock())
    assert.is_true(third:check())
  end)
end)

describe("a lock in a to-be-closed variable", function()
  local function test(name, story)
    it(name, coroutine.close and story or function() pending "<close> came with Lua 5.4" end)
  end

  local function run(source, ...)
    return assert(load('local client, object = ... local lock <close> = assert(client:lock "a") '
      .. source))(...)
  end

  test("is released by an error in the block, which stays the same object", function()
    local object = {}
    local ok, failure = pcall(run, "error(object)", client, object)
    assert.is_false(ok)
    assert.equal(object, failure)
    assert.same({}, etcd:keys(prefix))
  end)

  test("may be unlocked before the end of the block", function()
    assert.is_true(run("return lock:unlock()", client))
    assert.same({}, etcd:keys(prefix))
  end)

  test("has its count decremented at the end of the block, as by unlock", function()
    local outer = assert(client:lock "a")
    run("", client)
    assert.equal(1, outer:count())
    assert.is_true(outer:check())
  end)
end)

-- Regression 030. The hold deadline of a lease of 300 s was only 2 s before the end of the lease.
-- On a clock that runs 1 % slower than etcd's, the hold ended 1 s after the lease.

-- SLOWER: the fraction by which a clock may run slower than etcd's. REST: the seconds that must
-- remain between the hold deadline on such a clock and the end of the lease.
local SLOWER, REST = 0.01, 0.15

for _, ttl in ipairs { 2, 10, 60, 300 } do
  it(("a hold with TTL %d s ends before its lease on a clock that is 1 %% slow")
    :format(ttl), function()
    local lock = assert(connect { ttl = ttl }:lock "a")
    assert.is_true(lock:remaining() / (1 - SLOWER) <= ttl - REST, lock:remaining())
    assert.is_true(lock:remaining() > ttl / 2)
    assert.is_true(lock:unlock())
  end)
end
