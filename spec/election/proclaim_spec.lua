-- Tests that the values of lock:proclaim are written in the order of the calls.
-- Needs: one plain member.

client_options { ttl = 60 }
local mine, theirs

before_each(function()
  mine = assert(connect():election "boss")
  theirs = assert(connect { elsewhere = true }:election "boss")
end)

describe("lock:proclaim", function()
  local election, lock

  -- Makes proclaim(|value|) fail. Its transaction reaches etcd only when |server| delivers it.
  local function proclaim_late(value)
    server:answer("Txn", "late", error_rows.STATUS.UNAVAILABLE, "etcdserver: request timed out", 1)
    assert_fails("unavailable", lock:proclaim(value))
  end

  before_each(function()
    local cut_off = connect { endpoints = server:endpoint() }
    election = assert(cut_off:election "boss")
    lock = assert(election:campaign "first")
    clients.await_watched(cut_off, lock)
  end)

  it("may take effect later if its answer was lost", function()
    proclaim_late "late"
    assert.equal("first", (mine:leader()))
    assert.equal(1, server:deliver "Txn")
    assert.equal("late", (mine:leader()))
    assert.is_true(lock:check())
  end)

  it("with a lost answer has no effect after a later proclaim", function()
    proclaim_late "late"
    assert.is_true(lock:proclaim "next")
    assert.equal(1, server:deliver "Txn")
    assert.equal("next", (mine:leader()))
    assert.is_true(lock:proclaim "last")
    assert.equal("last", (mine:leader()))
    assert.is_true(lock:put(prefix .. "data", "v"))
    assert.is_true(lock:delete(prefix .. "data"))
    assert.is_true(lock:check())
  end)

  it("sends one request", function()
    local calls = server:count("Txn", function()
      for i = 1, 5 do assert.is_true(lock:proclaim(tostring(i))) end
    end)
    assert.equal(5, calls)
  end)

  it("with a lost answer has no effect after resign", function()
    proclaim_late "late"
    assert.is_true(lock:resign())
    local heir = assert(theirs:campaign "heir")
    assert.equal(1, server:deliver "Txn")
    assert.equal("heir", (mine:leader()))
    assert.is_true(heir:resign())
    assert.same({}, etcd:keys(prefix))
  end)

  it('with a lost answer makes campaign fail with "deadlock" until the next proclaim', function()
    proclaim_late "late"
    assert_fails("deadlock", election:campaign "first")
    assert_fails("deadlock", election:campaign "late")
    assert.is_true(lock:proclaim "sure")
    assert.equal(lock, election:campaign "sure")
  end)
end)
