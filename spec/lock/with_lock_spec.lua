-- Tests calls that run a function under a lock: client:with_lock, client:wrap, etcdlock.with_lock.

local assert_ran = clients.assert_ran

local function never() error "was run" end

describe("with_lock", function()
  it("runs the function while the lock is held, and releases the lock", function()
    local seen
    assert.is_true(client:with_lock("a", function(lock)
      assert.is_true(lock:check())
      assert.same({ lock:key() }, etcd:keys(prefix))
      local _, _, code = other:try_lock "a"
      assert.equal("locked", code)
      seen = lock
    end))
    assert.same({ false, "not_held" }, { seen:held() })
    assert.same({}, etcd:keys(prefix))
  end)

  it("returns true and all results of the function, also nil", function()
    local function results(...) return select("#", ...), { ... } end
    assert.equal(1, (results(client:with_lock("a", function() end))))
    assert.equal(2, (results(client:with_lock("a", function() return nil end))))
    local n, list = results(client:with_lock("a", function() return nil, 2, nil, 4, nil end))
    assert.equal(6, n)
    assert.same({ true, nil, 2, nil, 4 }, list)
    assert.same({ true, false, "message" }, { client:with_lock("a", function()
      return false, "message"
    end) })
  end)

  it("accepts the options of lock", function()
    assert.same({ true, "v", "me" }, { client:with_lock("a", { value = "v", owner = "me" },
      function()
        local place = client:queue "a"[1]
        return place.value, place.owner
      end) })
  end)

  it("does not run the function if it did not acquire the lock", function()
    clients.keep(assert(other:lock "a"))
    assert_fails("locked", client:with_lock("a", { timeout = 0 }, never))
    assert_fails("timeout", clients.answered(client.with_lock, client, "a", { timeout = 1 }, never))
    assert_fails("invalid", client:with_lock("", never))
    client:close()
    assert_fails("closed", client:with_lock("a", never))
  end)

  it("releases the lock if the function raises an error, and raises the same error", function()
    local object = setmetatable({}, { __tostring = function() return "an object" end })
    for _, thrown in ipairs { object, "text", 42, false } do
      local ok, caught = pcall(client.with_lock, client, "a", function() error(thrown, 0) end)
      assert.is_false(ok)
      assert.equal(thrown, caught)
      assert.same({}, etcd:keys(prefix))
    end
    local ok, caught = pcall(client.with_lock, client, "a", function() error(nil) end)
    assert.is_false(ok)
    assert.equal(select(2, pcall(error)), caught) -- nil; in Lua 5.5 a text
    assert.same({}, etcd:keys(prefix))
  end)

  it("preserves the traceback of an error that the function raises", function()
    local function deep_down() error "oops" end
    local trace
    xpcall(function()
      client:with_lock("a", function()
        deep_down()
        return nil
      end)
    end, function(message) trace = debug.traceback(message) end)
    if not coroutine.close then trace = etcdlock.traceback() end
    assert.matches("oops", trace, 1, true)
    assert.matches("deep_down", trace, 1, true)
  end)

  it("releases the lock if an error ends its coroutine, even without coroutine.close", function()
    local ended = coroutine.create(function()
      client:with_lock("a", function() error("oops", 0) end)
    end)
    assert.same({ false, "oops" }, { coroutine.resume(ended) })
    assert.same({}, client:queue "a")
    assert.equal("dead", coroutine.status(ended))
  end)

  it('returns "lost" and the results of the function if the lock was lost meanwhile', function()
    local message, result, nothing = assert_ran("lost", client:with_lock("a", function(lock)
      etcd:del(lock:key())
      lock:wait_lost(5)
      return "a result", nil
    end))
    assert.matches("deleted", message)
    assert.same({ "a result", nil }, { result, nothing })
  end)

  it('returns "lost" if only the release finds the loss', function()
    assert_ran("lost", client:with_lock("a", function(lock)
      assert.is_true(other:break_lock("a", lock:token()))
    end))
  end)

  it('returns "not_held" if the function unlocks the lock', function()
    assert_ran("not_held", client:with_lock("a", function(lock) assert.is_true(lock:unlock()) end))
  end)

  it("raises the function's error even if the lock was lost", function()
    local ok, caught = pcall(client.with_lock, client, "a", function(lock)
      etcd:del(lock:key())
      lock:wait_lost(5)
      error("mine", 0)
    end)
    assert.is_false(ok)
    assert.equal("mine", caught)
  end)

  it("may be nested for the same name and for other names", function()
    assert.same({ true, true, true, "deep" }, { client:with_lock("a", function(outer)
      return client:with_lock("b", function()
        return client:with_lock("a", function(inner)
          assert.equal(outer, inner)
          assert.equal(2, inner:count())
          return "deep"
        end)
      end)
    end) })
    assert.same({}, etcd:keys(prefix))
  end)

  it("allows the function to yield", function()
    if _VERSION == "Lua 5.1" and not rawget(_G, "jit") then
      return pending "Lua 5.1 can't yield across pcall"
    end
    local work = coroutine.wrap(function()
      return client:with_lock("a", function(lock)
        coroutine.yield(lock)
        return lock:held()
      end)
    end)
    local lock = work()
    assert.is_true(lock:held())
    local ok, held = work()
    assert.same({ true, true }, { ok, held })
    assert.is_false(lock:held())
  end)

  it("releases the lock when its coroutine is closed while the function yields", function()
    local close = rawget(coroutine, "close")
    if not close then return pending "coroutine.close came with Lua 5.4" end
    local thread = coroutine.create(function() client:with_lock("a", coroutine.yield) end)
    local _, lock = coroutine.resume(thread)
    assert.is_true(lock:held())
    assert.is_true(close(thread))
    assert.same({ false, "not_held" }, { lock:held() })
    assert.same({}, etcd:keys(prefix))
  end)
end)

describe("wrap", function()
  it("returns a function that runs under the lock with the arguments of its call", function()
    local add = client:wrap("a", function(...)
      assert.equal(1, #client:queue "a")
      return select("#", ...), ...
    end)
    assert.equal(0, client:stats().acquired)
    assert.same({ true, 0 }, { add() })
    local ok, n, first, second, third = add(1, nil, 3)
    assert.same({ true, 3, 1, 3 }, { ok, n, first, third })
    assert.is_nil(second)
    assert.equal(4, (add(nil, nil, nil, nil) and select(2, add(nil, nil, nil, nil))))
    assert.same({}, etcd:keys(prefix))
  end)

  it("returns a function that returns failures and raises errors as with_lock does", function()
    local wrapped = client:wrap("a", { timeout = 1 }, never)
    local holder = assert(other:lock "a")
    assert_fails("timeout", clients.answered(wrapped))
    holder:unlock()
    assert.error_matches(wrapped, "was run")
    assert.same({}, etcd:keys(prefix))
  end)

  it("returns a function that may call itself", function()
    local countdown
    countdown = client:wrap("a", function(n)
      if n == 0 then return "done" end
      return select(2, countdown(n - 1))
    end)
    assert.same({ true, "done" }, { countdown(5) })
    assert.equal(1, client:stats().acquired)
  end)
end)

describe("a child process", function()
  -- Runs |source| in a child process with the environment |variables| (nil: the endpoints of the
  -- test's etcd); returns its output.
  local function run(source, variables)
    local env = variables or { ETCDCTL_ENDPOINTS = etcd:endpoints() }
    local out, code, err = proc.run_lua("spec/support/programs/child.lua", { source, prefix },
      { env = env })
    assert.equal(0, code, err)
    return out
  end

  it("uses one client for all its calls of etcdlock.with_lock", function()
    assert.matches("^true\ttrue\n$", run [[
      local etcdlock = require "etcdlock"
      local name = ...
      local _, first = etcdlock.with_lock(name .. "a", function(lock) return lock:lease() end)
      local _, second = etcdlock.with_lock(name .. "b", function(lock) return lock:lease() end)
      local _, nested = etcdlock.with_lock(name .. "a", function(outer)
        return select(2, etcdlock.with_lock(name .. "a", function(lock)
          return lock == outer and lock:count() == 2
        end))
      end)
      print(first == second, nested)
    ]])
  end)

  it("revokes the lease of etcdlock.with_lock when it exits", function()
    run [[ assert(require("etcdlock").with_lock(... .. "a", function() end)) ]]
    -- A busy etcd may end the lease a little later, but long before its TTL is over.
    wait.eventually(function() return not etcd:leases()[1] end, 1, "the end of the lease")
  end)

  it('gets "invalid" from etcdlock.with_lock for a bad endpoint in its environment', function()
    assert.matches("nil\t.*nowhere.*\tinvalid", run(
      [[ print(require("etcdlock").with_lock(... .. "a", error)) ]],
      { ETCDCTL_ENDPOINTS = "nowhere" }))
  end)

  it("waits in client:with_lock while another process holds the lock", function()
    local lock = assert(client:lock "a")
    local child = remote.start { endpoints = etcd:endpoints(), prefix = prefix }
    remote.send(child, "return client:with_lock('a', function() return 'ran' end)")
    wait.eventually(function() return #client:queue "a" == 2 end)
    remote.assert_waits(child)
    assert.is_true(lock:unlock())
    assert.same({ "true", "ran" }, remote.answer_of(child))
    child:wait()
  end)
end)
