-- Tests that read holds are read-only: put, delete and a txn that writes raise under a read lock
-- and under a downgraded write lock; get, check and a txn that only reads work.

local KEY = prefix .. "data"

before_each(function() etcd:put(KEY, "before") end)

after_each(function() etcd:del(KEY) end)
local WRITES = {
  ["lock:put"] = function(lock) return lock:put(KEY, "v") end,
  ["lock:delete"] = function(lock) return lock:delete(KEY) end,
  ["lock:txn"] = function(lock) return lock:txn { { "get", KEY }, { "put", KEY, "v" } } end,
}

-- Ways to get a read hold: each takes the hold |name|.
local HOLDS = {
  ["a read lock"] = function(name) return assert(client:read_lock(name)) end,
  ["a lock of try_read_lock"] = function(name) return assert(client:try_read_lock(name)) end,
  ["a lock of read_lock_async"] = function(name)
    return clients.granted(assert(client:read_lock_async(name)))
  end,
  ["a downgraded write lock"] = function(name)
    local lock = assert(client:write_lock(name))
    assert.is_true(lock:downgrade())
    return lock
  end,
}

-- Fails unless |call| raises a message that contains all of the texts.
local function assert_raises(call, ...)
  local ok, message = pcall(call)
  assert.is_false(ok)
  for _, text in ipairs { ... } do assert.matches(text, message, 1, true) end
end

for what, take in pairs(HOLDS) do
  describe(what, function()
    it("makes put, delete and a writing txn raise, naming operation, lock and remedy", function()
      local lock = take "stock/1001"
      local fix = what:find "downgraded" and "write before lock:downgrade"
        or "take a write lock (client:write_lock)"
      for operation, write in pairs(WRITES) do
        assert_raises(function() write(lock) end, operation .. ": ",
          'lock "' .. prefix .. 'stock/1001"', "read hold", fix, "read_only_spec.lua:")
      end
      assert.equal("before", (etcd:get(KEY)))
      assert.is_true(lock:check())
      assert.is_true(lock:unlock())
      assert.same({ KEY }, etcd:keys(prefix))
    end)

    it("makes writes raise after it was lost or released, too", function()
      local lost, released = take "a", take "b"
      etcd:del(lost:key())
      assert.equal("deleted", lost:wait_lost(5))
      assert.is_true(released:unlock())
      for operation, write in pairs(WRITES) do
        assert_raises(function() write(lost) end, operation, prefix .. 'a"')
        assert_raises(function() write(released) end, operation, prefix .. 'b"')
      end
      assert.equal("before", (etcd:get(KEY)))
    end)

    it("allows get, check and a txn that only reads", function()
      local lock = take "a"
      assert.equal("before", (lock:get(KEY)))
      assert.is_true(lock:check())
      assert.same({ "before", false }, assert(lock:txn { { "get", KEY }, { "get", KEY .. "2" } }))
      assert.is_true(lock:unlock())
      assert_fails("not_held", lock:get(KEY))
      assert_fails("not_held", lock:txn { { "get", KEY } })
    end)
  end)
end

describe("a read hold", function()
  it("of with_read_lock raises the error of put to the caller and is released", function()
    assert_raises(function()
      client:with_read_lock("a", function(lock) lock:put(KEY, "v") end)
    end, "lock:put", prefix .. 'a"', "client:write_lock")
    assert.same({ KEY }, etcd:keys(prefix))
  end)

  it("does not check the operations of a txn less strictly", function()
    local lock = assert(client:read_lock "a")
    assert_raises(function() lock:txn { { "get", KEY }, { "move", KEY } } end, "operation 2")
    assert_raises(function() lock:put(KEY, 5) end, "value = 5")
  end)

  it("that the owner of a write lock asks for is the write lock, which writes", function()
    local writer = assert(client:write_lock "a")
    local lock = assert(client:read_lock "a")
    assert.equal("write", lock:mode())
    assert.is_true(lock:put(KEY, "v"))
    assert.is_true(lock:unlock())
    assert.is_true(writer:delete(KEY))
    assert.is_true(writer:unlock())
  end)
end)

describe("lock:downgrade", function()
  local lock

  before_each(function()
    -- With a TTL of 60 s no lease proof, which could take a scripted answer, is due in the test.
    scripted_client { ttl = 60 }
    lock = assert(client:write_lock "a")
    clients.await_watched(client, lock)
  end)

  -- Asserts that a reader is let in, that etcd then receives |n| late requests, and that the data
  -- key still contains |value|.
  local function assert_late(n, value)
    local reader = assert(other:read_lock("a", { timeout = 5 }))
    assert.equal(n, server:deliver "Txn")
    assert.equal(value, (reader:get(KEY)))
    assert.equal(value, (lock:get(KEY)))
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
    assert.is_true(reader:unlock())
    assert.same({ KEY }, etcd:keys(prefix))
  end

  it("prevents that an earlier put of unknown outcome is applied later", function()
    server:delay "Txn"
    assert_fails("unavailable", lock:put(KEY, "late"))
    assert.is_true(lock:downgrade())
    assert_late(1, "before")
  end)

  it("prevents that even if marker key writes are late, too", function()
    server:delay("Txn", 3)
    assert_fails("unavailable", lock:put(KEY, "late"))
    assert.is_true(lock:downgrade())
    assert_late(3, "before")
  end)

  it("waits for puts in flight, and prevents that a late one is applied", function()
    local writes = {}
    server:delay "Txn"
    for i = 1, 2 do -- the writes of one hold are sent one by one
      writes[i] = clients.start_put(client, lock, KEY, "write " .. i, 5)
    end
    assert.is_true(lock:downgrade())
    assert.is_false((writes[1]:wait(5)))
    assert.is_true((writes[2]:wait(5)))
    assert_late(1, "write 2")
  end)

  it("of unknown outcome makes put raise and can be repeated", function()
    server:delay "Txn"
    assert_fails("unavailable", lock:downgrade())
    assert.equal("read", lock:mode())
    assert.has_error(function() lock:put(KEY, "late") end)
    assert.is_true(lock:downgrade())
    assert_late(1, "before")
  end)
end)
