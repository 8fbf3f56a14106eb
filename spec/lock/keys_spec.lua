-- Tests which keys belong to the queue of a lock: the key layout, which Go's clients share.
-- Needs: one plain member.

local function assert_counts(name, key, lease, mode, permits)
  assert.same({ lease, mode, permits or 0 }, { core.parse_key(name, key, lease) })
end

-- Asserts that none of |keys|, attached to |lease| (1f), is an entry in the queue of |name|.
local function assert_strangers(name, keys, lease)
  for _, key in ipairs(keys) do
    assert.is_nil(core.parse_key(name, key, lease or "1f"),
      ("%q in the queue of %q"):format(key, name))
  end
end

describe("parse_key", function()
  it("accepts a lock key: the name, a slash and a lease ID in lower-case hex", function()
    for _, lease in ipairs {
      "1", "694d7a2b3c4d5e6f", "7fffffffffffffff", "ffffffffffffffff", "10",
    } do
      assert_counts("a", "a/" .. lease, lease, "lock")
    end
  end)

  it("accepts a key with read or write between name and lease ID", function()
    assert_counts("a", "a/read/1f", "1f", "read")
    assert_counts("a", "a/write/1f", "1f", "write")
    assert_counts("a/read", "a/read/1f", "1f", "lock")
    assert_counts("a/read", "a/read/read/1f", "1f", "read")
    assert_counts("read", "read/read/1f", "1f", "read")
    assert_counts("read", "read/1f", "1f", "lock")
  end)

  it("accepts a key with a number in hex after the lease ID", function()
    assert_counts("a", "a/1f-1", "1f", "multi")
    assert_counts("a", "a/1f-80000000", "1f", "multi")
    assert_counts("a", "a/1f-80000001", "1f", "lock")
    assert_counts("a", "a/1f-ffffffff", "1f", "lock")
    assert_counts("a", "a/read/1f-2", "1f", "read")
    assert_strangers("a",
      { "a/1f-", "a/1f-0", "a/1f-01", "a/1f--1", "a/1f-g", "a/1f-1ffffffff" })
  end)

  it("accepts a permit key and returns its number of permits", function()
    assert_counts("a", "a/permit/1f.3", "1f", "permit", 3)
    assert_counts("a", "a/permit/1f-2.3e8", "1f", "permit", 1000)
    assert_strangers("a", { "a/permit/1f", "a/permit/1f.0", "a/permit/1f.3e9", "a/1f.3" })
  end)

  it("accepts keys of names that contain slashes, blanks, NUL or a lease ID", function()
    for _, name in ipairs { "a/b", "a/", "/", "//", "a/b/c", " ", "a\0b", "\255", "1f", "a/1f" } do
      assert_counts(name, name .. "/1f", "1f", "lock")
      assert_counts(name, name .. "/read/1f", "1f", "read")
      assert_counts(name, name .. "/write/1f", "1f", "write")
    end
  end)

  it("rejects a key that is not attached to the lease that its name contains", function()
    local keys = { "a/1f", "a/1f-2", "a/read/1f", "a/write/1f", "a/permit/1f.3" }
    for _, key in ipairs(keys) do assert.is_nil(core.parse_key("a", key), key) end
    for _, lease in ipairs { "1", "1e", "1f0", "f1", "f000000000000001f" } do
      assert_strangers("a", keys, lease)
    end
  end)

  it("accepts a read or write key with a timestamp if it is attached to any lease", function()
    for _, mode in ipairs { "read", "write" } do
      local key = "a/" .. mode .. "/1700000000123456789"
      assert.equal(mode, (select(2, core.parse_key("a", key, "1f"))))
      assert.is_nil(core.parse_key("a", key), key)
    end
  end)

  it("rejects a key of a longer name that begins with the lock's name and a slash", function()
    assert_strangers("a", {
      "a/b/1f", "a/1f/1f", "a//1f", "a/b/read/1f", "a/read/read/1f", "a/read/write/1f",
      "a/read/1f/1f", "a/read/order/1f-2", "a/write/order/1f-2",
    })
  end)

  it("rejects a key of another name", function()
    assert_strangers("a", { "b/1f", "ab/1f", "a", "", "A/1f" })
    assert_strangers("ab", { "a/1f" })
    assert_strangers("a/b", { "a/1f" })
  end)

  it("rejects a key that ends in anything but a lease ID as etcd prints it", function()
    for _, text in ipairs {
      "", "0", "01f", "001f", "1F", "ABC", "1fg", "g", "x", "-1", "+1", "0x1f", " 1f", "1f ",
      "1f\0", "1f\n", "1f/", "1.0", "12345678901234567", "10000000000000000", "00000000000000001",
    } do
      assert_strangers("a", { "a/" .. text, "a/read/" .. text, "a/write/" .. text })
    end
  end)

  it("rejects a key with a misspelled read or write part", function()
    for _, infix in ipairs { "Read", "READ", "reads", "rea", "writes", "w", "lock" } do
      assert_strangers("a", { "a/" .. infix .. "/1f" })
    end
    assert_strangers("a", { "a/read1f", "a/read", "a/write", "aread/1f" })
  end)
end)

describe("name_of_key", function()
  local function assert_name(name, key)
    assert.equal(name, core.name_of_key(key))
    if name then assert.is_truthy(core.parse_key(name, key, "1f"), key) end
  end

  it("returns the lock name of a key of any mode", function()
    for _, name in ipairs { "a", "a/b", "a/", "/a", "read", "a/reads", "a/order", "1f", "a\0b" } do
      assert_name(name, name .. "/1f")
      assert_name(name, name .. "/1f-2")
      assert_name(name, name .. "/read/1f")
      assert_name(name, name .. "/write/1f")
      assert_name(name, name .. "/permit/1f.3")
    end
  end)

  it("returns the name of a read or write key with a timestamp instead of a lease ID", function()
    assert_name("a", "a/read/1700000000123456789")
    assert_name("a", "a/write/1700000000123456789")
    assert_name(nil, "a/1700000000123456789")
    assert.is_nil(core.parse_key("a", "a/read/1700000000123456789"))
  end)

  it("returns the name of a key that may be attached to no lease or another one", function()
    for _, key in ipairs { "a/1f", "a/1f-2", "a/read/1f", "a/write/1f", "a/permit/1f.3" } do
      assert.equal("a", core.name_of_key(key))
      assert.is_nil(core.parse_key("a", key))
      assert.is_nil(core.parse_key("a", key, "1e"))
    end
  end)

  it("returns the name of the marker of a downgraded writer, which is no entry", function()
    assert.equal("a", core.name_of_key "a/write/read/1f")
    assert.is_nil(core.parse_key("a", "a/write/read/1f", "1f"))
  end)

  it("returns nil for keys of reserved names, other markers and other text", function()
    for _, key in ipairs {
      "", "a", "1f", "/1f", "a/", "a/g", "/read/1f", "a/read/read/1f", "a/permit/1f",
      "a/write/order/1f",
      "a/read/order/1f-2", "a/write/order/1f-2", -- marker keys of earlier versions
    } do
      assert_name(nil, key)
    end
  end)
end)

describe("is_name", function()
  it("is true for a full name of a lock", function()
    for _, name in ipairs { "a", "/", "a/order", ("x"):rep(core.NAME_MAX), "\255" } do
      assert.is_true(core.is_name(name), name)
    end
  end)

  it("is false for an empty, long or reserved name, and for one with NUL", function()
    for _, name in ipairs { "", ("x"):rep(core.NAME_MAX + 1), "a/read", "a\0b", "\0" } do
      assert.is_false(core.is_name(name), name)
    end
  end)
end)

describe("reserved_end", function()
  it("returns the ending that makes a name collide with keys of another name", function()
    for _, mode in ipairs { "read", "write", "permit" } do
      local stem = core.key_stem("a", mode):sub(1, -2)
      assert.equal("a/" .. mode, stem)
      assert.equal("/" .. mode, core.reserved_end(stem))
    end
    local marker = core.downgrade_marker("a", 0x1f)
    assert.equal("a/write/read/1f", marker)
    assert.equal("/read", core.reserved_end "a/write/read")
    assert.equal("/read/order", core.reserved_end "/read/order")
    assert.equal("/write/order", core.reserved_end "a/write/order")
  end)

  it("returns nil for any other name", function()
    for _, name in ipairs { "", "/", "a", "read", "a/order", "aread", "a/reads", "a/read/" } do
      assert.is_nil(core.reserved_end(name), name)
    end
    assert.equal("a/", core.key_stem("a", "lock"))
  end)
end)
