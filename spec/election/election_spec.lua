-- Tests elections: the first candidate in the queue leads and publishes a value. The values of
-- lock:proclaim are written in the order of the calls.

local granted = clients.granted
local mine, theirs

before_each(function()
  mine, theirs = assert(client:election "boss"), assert(other:election "boss")
end)

local function await_keys(count) etcd:await_keys(prefix, count) end

describe("an election", function()
  it("is won by the first candidate, and leader() returns its value", function()
    assert.is_false(mine:leader())
    local lock = assert(mine:campaign "anna")
    assert.equal("leader", lock:mode())
    assert.is_true(lock:held())
    assert.same({ "anna", lock:key(), lock:token() }, { theirs:leader() })
    assert_fails("timeout", clients.answered(theirs.campaign, theirs, "ben", { timeout = 1 }))
    local asked = assert(theirs:campaign_async("ben", { owner = {} }))
    await_keys(2)
    assert.equal("anna", (mine:leader()))
    assert.is_true(lock:resign())
    lock = granted(asked)
    assert.equal("ben", (mine:leader()))
    assert.is_true(lock:unlock())
    assert.is_false(mine:leader())
    assert.same({}, etcd:keys(prefix))
  end)

  it("lets only its leader change the value by proclaim", function()
    local lock = assert(mine:campaign "a")
    local token = lock:token()
    assert.is_true(lock:proclaim "b")
    assert.same({ "b", lock:key(), token }, { theirs:leader() })
    -- With this watch, the client would notice if proclaim detached the key from its lease.
    clients.await_watched(client, lock)
    assert.is_true(lock:put(prefix .. "data", "v"))
    assert.is_true(lock:proclaim "c")
    assert.is_true(lock:delete(prefix .. "data"))
    assert.is_true(lock:resign())
    assert_fails("not_held", lock:proclaim "d")
    local plain = assert(client:lock "x")
    assert.has_error(function() plain:proclaim "a" end,
      'lock:proclaim: lock "' .. prefix .. 'x" is not a leader\'s; get one by election:campaign')
    assert.has_error(function() plain:resign() end,
      'lock:resign: lock "' .. prefix .. 'x" is not a leader\'s; get one by election:campaign')
    assert.is_true(plain:unlock())
  end)

  it("runs a function via with_leadership and resigns afterwards", function()
    assert.same({ true, 7 }, { mine:with_leadership("a", function(lock)
      assert.equal("a", (theirs:leader()))
      assert.is_true(lock:proclaim "b")
      return 7
    end) })
    assert.is_false(mine:leader())
  end)

  it('gives the leading owner the same hold, or "deadlock" for another value', function()
    local lock = assert(mine:campaign "a")
    assert.equal(lock, mine:campaign "a")
    assert.equal(2, lock:count())
    assert.matches("proclaim", assert_fails("deadlock", mine:campaign "b"))
    assert.is_true(lock:resign())
    assert.is_true(lock:resign())
    lock = assert(client:lock "boss")
    assert_fails("deadlock", mine:campaign "a")
    -- An election shares its queue with the locks of the same name.
    assert_fails("timeout", clients.answered(theirs.campaign, theirs, "a", { timeout = 1 }))
    assert.is_true(lock:unlock())
  end)

  it("ends a leadership at max_hold before the next candidate leads", function()
    local lock = assert(mine:campaign("a", { max_hold = 0.5 }))
    local reasons = {}
    lock:on_lost(function(_, reason) reasons[#reasons + 1] = reason end)
    local heir = granted(assert(theirs:campaign_async("b", { owner = {} })))
    assert.same({ false, "lost" }, { lock:held() })
    assert_fails("lost", lock:proclaim "still me")
    assert_fails("lost", lock:resign())
    assert.same({ "max_hold" }, reasons)
    assert.equal("b", (mine:leader()))
    assert.is_true(heir:resign())
  end)

  it("is listed by client:queue, and break_lock ends the leadership", function()
    local lock = assert(mine:campaign '{"at":"10.0.0.1"}')
    local asked = assert(theirs:campaign_async("b", { owner = {} }))
    await_keys(2)
    local places = assert(theirs._client:queue "boss")
    assert.same({ true, false }, { places[1].held, places[2].held })
    assert.same({ '{"at":"10.0.0.1"}', "b" }, { places[1].value, places[2].value })
    assert.is_true(other:break_lock("boss", lock:token()))
    local heir = granted(asked)
    assert.equal("deleted", lock:wait_lost(5))
    assert_fails("lost", lock:proclaim "still me")
    assert_fails("lost", lock:put(prefix .. "data", "v"))
    assert.equal("b", (mine:leader()))
    assert.is_true(heir:resign())
    assert_fails("lost", lock:resign())
  end)

  it("returns the value of the leader unchanged, also if it looks like JSON data", function()
    local lock = assert(mine:campaign "starting")
    for _, word in ipairs {
      '{"names":[]}', '{"first":"x"}', '{"host":"10.0.0.1","port":80}', "[]", "7", "\0",
      '{"names":["' .. prefix .. 'boss"],"host":"10.0.0.1"}', '{"value":"another"}',
    } do
      assert.is_true(lock:proclaim(word))
      local places = assert(other:queue "boss")
      assert.same({ true, word }, { places[1].held, places[1].value })
      assert.same({ nil, nil }, { places[1].host, places[1].names })
      assert.equal(word, (theirs:leader()))
    end
    assert.is_true(lock:proclaim "")
    assert.is_nil(assert(other:queue "boss")[1].value)
    assert.equal("", (theirs:leader()))
    assert.is_true(other:break_lock("boss", lock:token()))
    assert.equal("deleted", lock:wait_lost(5))
  end)

  it("finds the leader with one request, or two behind four semaphore permits", function()
    local semaphore = assert(client:semaphore("boss", 9))
    local function count()
      local calls = client:stats().calls
      mine:leader()
      return client:stats().calls - calls
    end
    for i = 1, 3 do clients.keep(assert(semaphore:lock { owner = i })) end
    assert.is_false(mine:leader())
    assert.equal(1, count())
    local lock = assert(other:election "boss":campaign "a")
    assert.equal("a", (mine:leader()))
    assert.equal(1, count())
    assert.is_true(lock:resign())
    clients.keep(assert(semaphore:lock { owner = 4 }))
    assert.is_false(mine:leader())
    lock = assert(other:election "boss":campaign "b")
    assert.equal("b", (mine:leader()))
    assert.equal(2, count())
    assert.is_true(lock:resign())
  end)

  it('fails with "locked" for try_campaign and timeout = 0 if another leads', function()
    local lock = assert(mine:try_campaign "a")
    assert_fails("locked", theirs:try_campaign("b", { max_hold = 5 }))
    assert_fails("locked", theirs:campaign("b", { timeout = 0 }))
    assert.equal(1, #etcd:keys(prefix))
    assert.is_true(lock:resign())
  end)

  it("refuses invalid names, values and options, and calls on a closed client", function()
    assert.equal('etcdlock.election "' .. prefix .. 'boss"', tostring(mine))
    assert.equal("boss", mine:name())
    assert.has_error(function() mine:campaign() end,
      "election:campaign: value = nil, wanted a string")
    assert.is_true(assert(mine:campaign(("x"):rep(4096))):resign())
    assert_fails("invalid", mine:campaign(("x"):rep(4097)))
    assert_fails("invalid", mine:try_campaign(("x"):rep(4097)))
    assert.matches("linger", assert_fails("invalid", mine:campaign("a", { linger = 1 })))
    assert.matches("value", assert_fails("invalid", mine:campaign("a", { value = "b" })))
    assert_fails("invalid", client:election "")
    assert_fails("invalid", mine:with_leadership(("x"):rep(4097), function() error "ran" end))
    assert_fails("invalid", mine:campaign_async(("x"):rep(4097)))
    assert.matches("call it with a colon", (select(2, pcall(mine.campaign, "a"))))
    assert_fails("closed", (function()
      client:close()
      return mine:leader()
    end)())
    assert_fails("closed", mine:campaign "a")
  end)
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
