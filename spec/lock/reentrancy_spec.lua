-- Tests the owners of one process: the same owner gets its lock again; another owner waits, or gets
-- "deadlock" for a wait that could never end.

-- Runs |fn| in a new coroutine and returns its results.
local function elsewhere(fn, ...) return coroutine.wrap(fn)(...) end

describe("the same owner", function()
  it("gets the same lock again and must unlock it as often", function()
    local lock = assert(client:lock "a")
    local token = lock:token()
    for i = 2, 5 do
      assert.equal(lock, client:lock "a")
      assert.equal(i, lock:count())
    end
    assert.equal(lock, client:try_lock "a")
    assert.equal(lock, client:lock("a", { timeout = 0 }))
    for i = 6, 1, -1 do
      assert.equal(i + 1, lock:count())
      assert.is_true(lock:unlock())
      assert.is_true(lock:held())
      assert.equal(token, lock:token())
    end
    assert.equal(1, #etcd:keys(prefix))
    assert.is_true(lock:unlock())
    assert.equal(0, lock:count())
    assert.same({}, etcd:keys(prefix))
    assert_fails("not_held", lock:unlock())
    assert.equal(0, lock:count())
  end)

  it("is by default the running coroutine", function()
    elsewhere(function()
      local lock = assert(client:lock "a")
      assert.equal(lock, client:lock "a")
      assert.is_true(lock:unlock())
      assert.is_true(lock:unlock())
    end)
    assert.same({}, etcd:keys(prefix))
  end)

  it("is the value of the option owner, in any coroutine", function()
    for _, owner in ipairs { "request 7", 7, {}, false, print } do
      local lock = assert(client:lock("a", { owner = owner }))
      elsewhere(function()
        assert.equal(lock, client:lock("a", { owner = owner }))
        assert.is_true(lock:unlock())
      end)
      assert.equal(1, lock:count())
      assert.is_true(lock:unlock())
    end
  end)

  it('gets "lost" from each unlock that is due after a loss, then "not_held"', function()
    local lock = assert(client:lock "a")
    clients.keep(assert(client:lock "a"))
    etcd:del(lock:key())
    assert.equal("deleted", lock:wait_lost(5))
    assert_fails("lost", lock:unlock())
    assert_fails("lost", lock:unlock())
    assert_fails("not_held", lock:unlock())
  end)

  it("value in another client names a different owner", function()
    local other = connect { elsewhere = true }
    clients.keep(assert(client:lock("a", { owner = "me" })))
    assert_fails("locked", other:try_lock("a", { owner = "me" }))
    assert_fails("timeout", clients.answered(other.lock, other, "a", { owner = "me", timeout = 1 }))
  end)
end)

describe("another owner of the same client", function()
  it('gets "deadlock" at once for a wait that could never end', function()
    local lock = assert(client:lock "a")
    local from = wait.now()
    local message = elsewhere(function() return assert_fails("deadlock", client:lock "a") end)
    assert_fails("deadlock", client:lock("a", { owner = "x" }))
    assert_fails("deadlock", client:lock("a", { owner = "x", timeout = 10 }))
    assert_fails("deadlock", client:with_lock("a", { owner = "x" }, error))
    assert.is_true(wait.now() - from < 2)
    assert.matches('"' .. prefix .. 'a"', message, 1, true)
    assert.is_true(lock:check())
    assert.equal(1, lock:count())
    assert.equal(1, #etcd:keys(prefix))
  end)

  it('gets "locked" from try_lock and with timeout = 0', function()
    clients.keep(assert(client:lock "a"))
    assert_fails("locked", client:try_lock("a", { owner = "x" }))
    assert_fails("locked", client:lock("a", { owner = "x", timeout = 0 }))
    elsewhere(function() assert_fails("locked", client:try_lock "a") end)
  end)

  it("gets the lock with a greater token after unlock", function()
    local lock = assert(client:lock("a", { owner = "x" }))
    local token = lock:token()
    assert.is_true(lock:unlock())
    local mine = assert(client:lock("a", { owner = "y" }))
    assert.not_equal(lock, mine)
    assert.is_true(mine:token() > token)
    assert_fails("not_held", lock:unlock())
    assert.is_true(mine:held())
  end)

  it('gets "deadlock" until expire sets the end of the hold, then waits', function()
    local short = assert(client:lock("a", { owner = "x" }))
    assert_fails("deadlock", client:lock("a", { owner = "y" }))
    assert.is_true(short:expire(0.4))
    local mine = assert(client:lock("a", { owner = "y", timeout = 5 }))
    assert_fails("lost", short:unlock())
    assert.is_true(mine:unlock())
  end)

  it('gets "timeout" if max_hold ends the hold later than its timeout', function()
    local long = assert(client:lock("a", { owner = "x", max_hold = 30 }))
    assert_fails("timeout", client:lock("a", { owner = "y", timeout = 1 }))
    assert_fails("locked", client:try_lock("a", { owner = "y" }))
    assert.is_true(long:check())
    assert.is_true(long:unlock())
    assert.is_true(assert(client:lock("a", { owner = "y", timeout = 5 })):unlock())
    etcd:await_keys(prefix, 0)
  end)
end)

-- Regression 011. Lua 5.1 and LuaJIT have no value for the main coroutine. With the option owner =
-- "main", a caller there was taken for the main coroutine: it shared the holds of the main
-- coroutine instead of waiting.
it('the owner "main" does not share a hold of the main coroutine', function()
  local child = remote.start { endpoints = suite.endpoints(), prefix = prefix }
  assert.same({ "locked", "1" }, remote.ask(child, [[
    local lock = assert(client:lock "a")
    local _, _, code = client:try_lock("a", { owner = "main" })
    return code, lock:count()
  ]]))
  child:wait()
end)
