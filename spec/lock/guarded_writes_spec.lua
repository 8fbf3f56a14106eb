-- Tests guarded calls (put, get, delete, txn, check): etcd carries them out only while the hold is
-- valid there.

local DATA = prefix .. "data/"
local lock

before_each(function() lock = assert(client:lock "a") end)

after_each(function() etcd:del_all(DATA) end)

describe("a holder", function()
  it("puts, reads and deletes keys with guarded calls", function()
    assert.is_true(lock:put(DATA .. "k", "one"))
    assert.equal("one", (etcd:get(DATA .. "k")))
    assert.equal("one", (lock:get(DATA .. "k")))
    assert.is_true(lock:put(DATA .. "k", "two"))
    assert.equal("two", (lock:get(DATA .. "k")))
    assert.same({ true, true }, { lock:delete(DATA .. "k") })
    assert.same({ true, false }, { lock:delete(DATA .. "k") })
    assert.is_nil(etcd:get(DATA .. "k"))
  end)

  it('gets false for a missing key and "" for an empty value', function()
    assert.is_false((lock:get(DATA .. "k")))
    lock:put(DATA .. "k", "")
    assert.equal("", (lock:get(DATA .. "k")))
  end)

  it("writes and reads keys and values of any bytes", function()
    local bytes = {}
    for i = 0, 255 do bytes[#bytes + 1] = string.char(i) end
    local value = table.concat(bytes):rep(100)
    lock:put(DATA .. "a\0b\255", value)
    assert.equal(value, (lock:get(DATA .. "a\0b\255")))
    assert.is_false((lock:get(DATA .. "a")))
    assert.is_true(select(2, lock:delete(DATA .. "a\0b\255")))
  end)

  it("writes keys without adding the client's prefix", function()
    lock:put(DATA .. "k", "v")
    assert.same({ DATA .. "k" }, etcd:keys(DATA))
  end)

  it("runs the operations of a txn in order and gets one result for each", function()
    lock:put(DATA .. "old", "0")
    local results = assert(lock:txn {
      { "get", DATA .. "old" },
      { "put", DATA .. "new", "1" },
      { "get", DATA .. "new" },
      { "get", DATA .. "none" },
      { "delete", DATA .. "old" },
      { "delete", DATA .. "none" },
    })
    assert.same({ "0", true, "1", false, true, false }, results)
    assert.same({ DATA .. "new" }, etcd:keys(DATA))
  end)

  it("changes no key if etcd refuses one operation of a txn, and keeps the hold", function()
    -- etcd refuses two puts of one key in a transaction.
    assert_fails("invalid", lock:txn {
      { "put", DATA .. "x", "1" },
      { "put", DATA .. "k", "1" },
      { "put", DATA .. "k", "2" },
    })
    assert.same({}, etcd:keys(DATA))
    assert.is_true(lock:held())
  end)

  it('gets "invalid" for an empty key and for oversized requests, and keeps the hold', function()
    assert_fails("invalid", lock:put("", "v"))
    assert_fails("invalid", lock:get "")
    assert_fails("invalid", lock:put(DATA .. "k", ("v"):rep(1700000)))
    assert_fails("invalid", lock:put(DATA .. "k", ("v"):rep(5000000)))
    local many = {}
    for i = 1, 200 do many[i] = { "get", DATA .. i } end
    assert_fails("invalid", lock:txn(many))
    assert.is_true(lock:check())
    assert.is_true(lock:put(DATA .. "k", ("v"):rep(1000000)))
    assert.equal(1000000, #lock:get(DATA .. "k"))
  end)

  it('can put until the last unlock of a hold with count 2, then gets "not_held"', function()
    assert(client:lock "a")
    lock:unlock()
    assert.is_true(lock:put(DATA .. "k", "v"))
    lock:unlock()
    assert_fails("not_held", lock:put(DATA .. "k", "w"))
    assert.equal("v", (etcd:get(DATA .. "k")))
  end)
end)
