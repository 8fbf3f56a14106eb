-- Tests client:get, which reads a key without a lock.
-- Needs: one plain member.

local KEY = prefix .. "data/config"

before_each(function() scripted_client { ttl = 5 } end)

after_each(function() etcd:del_all "" end) -- the documents' keys have no prefix

describe("client:get", function()
  it("returns the value, or the default if the key does not exist", function()
    assert.is_false(client:get(KEY))
    assert.equal("none", client:get(KEY, "none"))
    assert.same({}, client:get(KEY, {}))
    etcd:put(KEY, "on")
    assert.equal("on", client:get(KEY))
    etcd:put(KEY, "")
    assert.equal("", client:get(KEY, "none"))
  end)

  it("has the value that any client has just written, also under a lock", function()
    local other_client = connect { elsewhere = true }
    for i = 1, 20 do
      local lock = assert(other_client:lock "a")
      assert(lock:put(KEY, tostring(i)))
      assert.equal(tostring(i), client:get(KEY))
      assert.is_true(lock:unlock())
    end
  end)

  it("costs one request and no lease", function()
    local client = connect { elsewhere = true }
    assert.is_false(client:get(KEY))
    local before = client:stats().rpcs
    assert.is_false(client:get(KEY))
    assert.equal(before + 1, client:stats().rpcs)
    assert.is_nil(client:lease())
  end)

  it("never takes a failure for a missing key", function()
    server:answer("Txn", "before", error_rows.STATUS.PERMISSION_DENIED,
      "etcdserver: permission denied", 1)
    local value, message, code = client:get(KEY, "none")
    assert.is_nil(value)
    assert.equal("denied", code)
    assert.matches("permission denied", message, 1, true)
    client:close()
    assert_fails("closed", client:get(KEY, "none"))
  end)

  it("raises for a key that is no text", function()
    assert.error_matches(function() client:get() end, "client:get: key = nil, wanted a string")
  end)
end)
