-- A reader who let go of a key that others hold on to: a write of his whose answer was
-- lost came later, over a newer one of his next hold.

local clients = require "spec.support.harness.clients"
local error_rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local KEY = prefix .. "data"
local server, client, stays

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), {
    prefix = prefix, handoff_time = 60, ttl = 60, -- no look in between, and no probe
  })
  stays = assert(client:read_lock("a", { owner = "stays" }))
  clients.await_watched(client, stays)
end)

after_each(function()
  clients.close_all()
  etcd:ctl("del", KEY)
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

describe("a late write of a reader who shared his key", function()
  it("changes nothing once he has let go", function()
    local lock = read "leaves"
    write_late(lock)
    assert.is_true(lock:unlock())
    assert_no_effect()
  end)

  it("changes nothing once his time was over", function()
    local lock = read("leaves", { max_hold = 0.5 })
    write_late(lock)
    assert.equal("max_hold", lock:wait_lost(5))
    assert_no_effect()
  end)

  it("changes nothing though it takes a while until that is sure", function()
    local lock = read "leaves"
    write_late(lock)
    server:delay("Txn", 3)
    assert.is_true(lock:unlock())
    assert_no_effect()
  end)

  it("changes nothing once his time was over, and it takes a while until that is sure", function()
    local lock = read("leaves", { max_hold = 0.5 })
    write_late(lock)
    server:delay("Txn", 3)
    assert.equal("max_hold", lock:wait_lost(5))
    assert_no_effect()
  end)

  it("changes nothing where the key could have been handed on to him meanwhile", function()
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

  it("changes nothing though etcd has no space to make that sure, for a while", function()
    local lock = read "leaves"
    write_late(lock)
    server:answer("Txn", "before", error_rows.STATUS.RESOURCE_EXHAUSTED,
      "etcdserver: mvcc: database space exceeded", 2)
    assert.is_true(lock:unlock())
    assert_no_effect()
  end)

  it("leaves nothing behind when the client is closed before that is sure", function()
    local lock = read "leaves"
    write_late(lock)
    server:answer("Txn", "never", 0)
    clients.assert_fails("unavailable", lock:unlock())
    client:close()
    assert.is_true(server:deliver "Txn" >= 1)
    assert.is_nil((etcd:get(KEY)))
    assert.same({}, etcd:keys(prefix))
  end)

  it("costs nothing where none can come", function()
    local lock = read "leaves"
    assert.is_true(lock:put(KEY, "in time"))
    assert.equal(0, server:count("Txn", function() assert.is_true(lock:unlock()) end))
  end)

  it("and one that is still on its way isn't sent after he has let go", function()
    local lock = read "leaves"
    local txns = {}
    server:delay "Txn"
    for i = 1, 2 do -- one after the other, as all writes of a hold
      txns[i] = clients.start_put(client, lock, KEY, "write " .. i, 5)
    end
    assert.is_true(lock:unlock())
    for i = 1, 2 do txns[i]:wait(5) end
    server:deliver "Txn"
    assert.is_nil((etcd:get(KEY)))
    assert.is_true(stays:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("nor met again when its time is over", function()
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
