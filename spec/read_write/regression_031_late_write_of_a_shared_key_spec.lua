-- An owner released its read hold while other owners of the client still held the same key. A
-- guarded write of that hold, whose answer was lost, took effect later: it replaced a newer value
-- that the owner had written in its next hold.

local clients = require "spec.support.harness.clients"
local error_rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local KEY = prefix .. "data"
local server, client, stays

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), {
    prefix = prefix, handoff_time = 60, ttl = 60, -- no background request in between
  })
  stays = assert(client:read_lock("a", { owner = "stays" }))
  clients.await_watched(client, stays)
end)

after_each(function()
  clients.close_all()
  etcd:del(KEY)
end)

local function read(owner, opts)
  local lock = assert(client:read_lock("a", clients.with({ owner = owner, timeout = 5 }, opts)))
  assert.equal(stays:key(), lock:key())
  return lock
end

local function write_late(lock)
  server:delay "Txn"
  clients.assert_fails("unavailable", lock:put(KEY, "late"))
end

local function assert_no_effect()
  local again = read "leaves"
  assert.is_true(again:put(KEY, "newer"))
  assert.is_true(server:deliver "Txn" >= 1)
  assert.equal("newer", (etcd:get(KEY)))
  assert.is_true(again:unlock())
  assert.equal(1, server:count("Txn", function() assert.is_true(stays:put(KEY, "last")) end))
  assert.is_true(stays:unlock())
  assert.same({ KEY }, etcd:keys(prefix))
end

describe("regression 031: a late write of an ended read hold", function()
  it("has no effect after unlock", function()
    local lock = read "leaves"
    write_late(lock)
    assert.is_true(lock:unlock())
    assert_no_effect()
  end)

  it("has no effect after max_hold", function()
    local lock = read("leaves", { max_hold = 0.5 })
    write_late(lock)
    assert.equal("max_hold", lock:wait_lost(5))
    assert_no_effect()
  end)

  it("has no effect if three requests of unlock time out", function()
    local lock = read "leaves"
    write_late(lock)
    server:delay("Txn", 3)
    assert.is_true(lock:unlock())
    assert_no_effect()
  end)

  it("has no effect if three requests after max_hold time out", function()
    local lock = read("leaves", { max_hold = 0.5 })
    write_late(lock)
    server:delay("Txn", 3)
    assert.equal("max_hold", lock:wait_lost(5))
    assert_no_effect()
  end)

  it("has no effect if the owner asks for the lock again at once", function()
    local lock = read("leaves", { max_hold = 0.5 })
    write_late(lock)
    server:delay("Txn", 3)
    assert.equal("max_hold", lock:wait_lost(5))
    local asked = assert(client:read_lock_async("a", { owner = "leaves" }))
    assert.is_true(stays:unlock())
    local again = clients.granted(asked)
    assert.is_true(again:put(KEY, "newer"))
    assert.is_true(server:deliver "Txn" >= 1)
    assert.equal("newer", (etcd:get(KEY)))
    assert.is_true(again:unlock())
  end)

  it("has no effect if etcd is out of space during unlock", function()
    local lock = read "leaves"
    write_late(lock)
    server:answer("Txn", "before", error_rows.STATUS.RESOURCE_EXHAUSTED,
      "etcdserver: mvcc: database space exceeded", 2)
    assert.is_true(lock:unlock())
    assert_no_effect()
  end)

  it("has no effect after close if unlock got no answer", function()
    local lock = read "leaves"
    write_late(lock)
    server:answer("Txn", "never", 0)
    clients.assert_fails("unavailable", lock:unlock())
    client:close()
    assert.is_true(server:deliver "Txn" >= 1)
    assert.is_nil((etcd:get(KEY)))
    assert.same({}, etcd:keys(prefix))
  end)

  it("is ruled out without a request if no answer was lost", function()
    local lock = read "leaves"
    assert.is_true(lock:put(KEY, "in time"))
    assert.equal(0, server:count("Txn", function() assert.is_true(lock:unlock()) end))
  end)

  it("has no effect if it is in flight or queued at unlock", function()
    local lock = read "leaves"
    local txns = {}
    server:delay "Txn"
    for i = 1, 2 do -- the writes of one hold are sent one by one
      txns[i] = clients.start_put(client, lock, KEY, "write " .. i, 5)
    end
    assert.is_true(lock:unlock())
    for i = 1, 2 do txns[i]:wait(5) end
    server:deliver "Txn"
    assert.is_nil((etcd:get(KEY)))
    assert.is_true(stays:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("has no effect if it times out after unlock", function()
    local lock = read "leaves"
    local txns = {}
    server:delay "Txn"
    for i = 1, 20 do
      txns[i] = clients.start_put(client, lock, KEY, "write " .. i, 0.5)
    end
    assert.is_true(lock:unlock())
    for i = 1, 20 do assert.is_false((txns[i]:wait(5))) end
    wait.sleep(0.7)
    for i = 1, 20 do txns[i] = nil end
    collectgarbage()
    assert.is_true(stays:put(KEY, "last"))
    server:deliver "Txn"
    assert.equal("last", (etcd:get(KEY)))
    assert.is_true(stays:unlock())
  end)
end)
