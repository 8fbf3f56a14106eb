-- Tests guarded writes of keys whose last read has failed, and client:get, which reads a key
-- without a lock.
-- Needs: one plain member.

-- Regression 133. A program took a failed lock:get for a missing key, and a guarded write then
-- replaced the value that it had not read: a balance of 5000 became 90 in an outage of 6 s. In the
-- successful case the second result of lock:get became the base of tonumber.
local KEY, OTHER = prefix .. "data/anna", prefix .. "data/ben"
local lock

before_each(function()
  scripted_client { ttl = 5 }
  lock = clients.keep(assert(client:lock "a"))
  etcd:put(KEY, "5000")
end)

after_each(function() etcd:del_all "" end) -- the documents' keys have no prefix

-- Makes the next read fail.
local function fail_next()
  local status = error_rows.STATUS.PERMISSION_DENIED
  server:answer("Txn", "before", status, "etcdserver: permission denied", 1)
end

describe("after a failed lock:get", function()
  it('a write of the key fails with "unread" until the key is read', function()
    fail_next()
    assert_fails("denied", lock:get(KEY))
    local _, message, code = lock:put(KEY, "90")
    assert.equal("unread", code)
    assert.equal(('lock "%sa": get "%s": etcd %s: etcdserver: permission denied; so key "%s" was '
      .. "not read, and cannot be written; read it first"):format(prefix, KEY, server.address, KEY),
      message)
    assert_fails("unread", lock:delete(KEY))
    assert_fails("unread", lock:txn { { "put", OTHER, "110" }, { "put", KEY, "90" } })
    assert_fails("unread", lock:put(KEY, "90"))
    assert.is_true(lock:put(OTHER, "1"))
    assert.equal("5000", (etcd:get(KEY)))
    assert.equal("5000", lock:get(KEY))
    assert.is_true(lock:put(KEY, "4990"))
  end)

  it("in a lock:txn, too, for the keys that it only reads", function()
    fail_next()
    assert_fails("denied", lock:txn { { "get", KEY } })
    assert_fails("unread", lock:put(KEY, "90"))
    assert.same({ "5000" }, lock:txn { { "get", KEY } })
    fail_next()
    assert_fails("denied", lock:txn { { "get", KEY }, { "put", KEY, "4990" } })
    assert.is_true(lock:put(KEY, "4990"))
  end)

  it("a later hold may write the key", function()
    fail_next()
    assert_fails("denied", lock:get(KEY))
    lock:unlock()
    assert.is_true(assert(client:lock "a"):put(KEY, "1"))
  end)
end)

it("lock:get has one result on success, and a default for a missing key", function()
  assert.equal(1, select("#", lock:get(KEY)))
  assert.equal(5000, tonumber(lock:get(KEY)))
  assert.equal("5000", lock:get(KEY, "100"))
  assert.is_false(lock:get "missing")
  assert.equal(100, lock:get("missing", 100))
  fail_next()
  assert.is_nil((lock:get("missing", 100)))
end)

describe("client:get", function()
  it("returns the value, or the default if the key does not exist", function()
    etcd:del(KEY)
    assert.is_false(client:get(KEY))
    assert.equal("none", client:get(KEY, "none"))
    assert.same({}, client:get(KEY, {}))
    etcd:put(KEY, "on")
    assert.equal("on", client:get(KEY))
    etcd:put(KEY, "")
    assert.equal("", client:get(KEY, "none"))
  end)

  it("has the value that any client has just written, also under a lock", function()
    for i = 1, 20 do
      local writer = assert(other:lock "b")
      assert(writer:put(KEY, tostring(i)))
      assert.equal(tostring(i), client:get(KEY))
      assert.is_true(writer:unlock())
    end
  end)

  it("costs one request and no lease", function()
    assert.equal("5000", other:get(KEY))
    local before = other:stats().rpcs
    assert.equal("5000", other:get(KEY))
    assert.equal(before + 1, other:stats().rpcs)
    assert.is_nil(other:lease())
  end)

  it("never takes a failure for a missing key", function()
    fail_next()
    assert.matches("permission denied", (assert_fails("denied", client:get(KEY, "none"))), 1, true)
    client:close()
    assert_fails("closed", client:get(KEY, "none"))
  end)

  it("raises for a key that is no text", function()
    assert.error_matches(function() client:get() end, "client:get: key = nil, wanted a string")
  end)
end)

-- Runs a block with an etcd that stands still while the block reads a key for the first time.
local STANDSTILL = [[
  local Lock, uv, has_read = require "etcdlock.lock", require "luv", false
  local get = Lock.get
  function Lock.get(...)
    if has_read then return get(...) end
    has_read = true
    assert(uv.kill(%d, "sigstop"))
    repeat
      local is_stopped = true
      for task in io.popen("cat /proc/%d/task/*/stat"):lines() do
        is_stopped = is_stopped and task:find "%%) T"
      end
    until is_stopped
    local value, message, code = get(...)
    assert(uv.kill(%d, "sigcont"))
    return value, message, code
  end
]]

-- Returns true if the block reads a key before it writes.
local function reads_first(block)
  local read, write = block.text:find "lock:get", block.text:find '[:"]put'
  return read and write and read < write
end

describe("the documents' Lua does not write what it failed to read", function()
  for _, block in ipairs(documents.blocks "lua") do
    if reads_first(block) then
      it(block.place, function()
        local before = STANDSTILL:format(etcd:pid(), etcd:pid(), etcd:pid())
        local _, code, err = documents.run_lua(block, suite.endpoint(), before)
        assert.equal(1, code)
        assert.matches("in time", err, 1, true)
        assert.same({ KEY }, etcd:keys "")
      end)
    end
  end
end)
