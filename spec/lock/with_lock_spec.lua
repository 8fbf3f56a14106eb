-- Running a function under a lock: with_lock, wrap and the two-line use.

local clients = require "spec.support.harness.clients"
local etcdlock = require "etcdlock"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix }
local assert_fails, assert_ran = clients.assert_fails, clients.assert_ran
local client, other

local function never() error "was run" end

before_each(function()
  client, other = connect(), connect { elsewhere = true }
end)

after_each(clients.close_all)

describe("with_lock", function()
  it("runs the function while the lock is held, and releases it", function()
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

  it("returns true and all results of the function, nils too", function()
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

  it("takes the options of lock", function()
    assert.same({ true, "v", "me" }, { client:with_lock("a", { value = "v", owner = "me" },
      function()
        local place = client:queue "a"[1]
        return place.value, place.owner
      end) })
  end)

  it("never runs the function without the lock", function()
    clients.keep(assert(other:lock "a"))
    assert_fails("locked", client:with_lock("a", { timeout = 0 }, never))
    assert_fails("timeout", client:with_lock("a", { timeout = 1 }, never))
    assert_fails("invalid", client:with_lock("", never))
    client:close()
    assert_fails("closed", client:with_lock("a", never))
  end)

  it("releases the lock when the function fails, and passes the same error on", function()
    local object = setmetatable({}, { __tostring = function() return "an object" end })
    for _, thrown in ipairs { object, "text", 42, false } do
      local ok, caught = pcall(client.with_lock, client, "a", function() error(thrown, 0) end)
      assert.is_false(ok)
      assert.equal(thrown, caught)
      assert.same({}, etcd:keys(prefix))
    end
    local ok, caught = pcall(client.with_lock, client, "a", function() error(nil) end)
    assert.is_false(ok)
    assert.is_nil(caught)
    assert.same({}, etcd:keys(prefix))
  end)

  it("lets whoever catches the error see where it came from", function()
    local function deep_down() error "oops" end
    local trace
    xpcall(function()
      client:with_lock("a", function()
        deep_down()
        return nil
      end)
    end, function(message) trace = debug.traceback(message) end)
    if _VERSION ~= "Lua 5.4" then trace = etcdlock.traceback() end
    assert.matches("oops", trace, 1, true)
    assert.matches("deep_down", trace, 1, true)
  end)

  it("releases the lock when an error ends its coroutine, which nobody closes", function()
    local ended = coroutine.create(function()
      client:with_lock("a", function() error("oops", 0) end)
    end)
    assert.same({ false, "oops" }, { coroutine.resume(ended) })
    assert.same({}, client:queue "a")
    assert.equal("dead", coroutine.status(ended))
  end)

  it("says lost when the lock was lost meanwhile, never a plain success", function()
    local message, result, nothing = assert_ran("lost", client:with_lock("a", function(lock)
      etcd:del(lock:key())
      lock:wait_lost(5)
      return "a result", nil
    end))
    assert.matches("deleted", message)
    assert.same({ "a result", nil }, { result, nothing })
  end)

  it("says lost even if nobody has noticed before the release", function()
    assert_ran("lost", client:with_lock("a", function(lock)
      assert.is_true(other:break_lock("a", lock:token()))
    end))
  end)

  it("is no plain success for a function that lets go itself", function()
    assert_ran("not_held", client:with_lock("a", function(lock)
      assert.is_true(lock:unlock())
    end))
  end)

  it("passes the function's error on although the lock was lost", function()
    local ok, caught = pcall(client.with_lock, client, "a", function(lock)
      etcd:del(lock:key())
      lock:wait_lost(5)
      error("mine", 0)
    end)
    assert.is_false(ok)
    assert.equal("mine", caught)
  end)

  it("may be nested, for the same name and for others", function()
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

  it("lets the function yield", function()
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

  it("releases when its coroutine is closed half-way", function()
    local close = rawget(coroutine, "close")
    if not close then return pending "coroutine.close came with Lua 5.4" end
    local thread = coroutine.create(function()
      client:with_lock("a", coroutine.yield)
    end)
    local _, lock = coroutine.resume(thread)
    assert.is_true(lock:held())
    assert.is_true(close(thread))
    assert.same({ false, "not_held" }, { lock:held() })
    assert.same({}, etcd:keys(prefix))
  end)
end)

describe("wrap", function()
  it("makes a function that runs under the lock, with its own arguments", function()
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

  it("answers as with_lock does", function()
    local wrapped = client:wrap("a", { timeout = 1 }, never)
    local holder = assert(other:lock "a")
    assert_fails("timeout", wrapped())
    holder:unlock()
    local ok, message = pcall(wrapped)
    assert.is_false(ok)
    assert.matches("was run", message)
    assert.same({}, etcd:keys(prefix))
  end)

  it("makes functions that may call themselves", function()
    local countdown
    countdown = client:wrap("a", function(n)
      if n == 0 then return "done" end
      return select(2, countdown(n - 1))
    end)
    assert.same({ true, "done" }, { countdown(5) })
    assert.equal(1, client:stats().acquired)
  end)
end)

describe("etcdlock.with_lock", function()
  -- Runs |source| in a child whose default etcd is ours.
  local function run(source, variables)
    local env = variables or { ETCDCTL_ENDPOINTS = etcd:endpoints() }
    local out, code, err = proc.run_lua("spec/support/programs/child.lua", { source, prefix },
      { env = env })
    assert.equal(0, code, err)
    return out
  end

  it("needs no client", function()
    local out = run [[
      local etcdlock = require "etcdlock"
      print(etcdlock.with_lock(... .. "a", function(lock) return lock:check() end))
    ]]
    assert.matches("^true\ttrue\t[%d.]+\t%d+\n$", out)
  end)

  it("takes options and refuses like a client's", function()
    clients.keep(assert(client:lock "a"))
    assert.matches("nil\t.*\tlocked", run [[
      print(require("etcdlock").with_lock(... .. "a", { timeout = 0 }, error))
    ]])
  end)

  it("uses one client for all calls", function()
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

  it("gives the lease back at the end of the program", function()
    run [[ assert(require("etcdlock").with_lock(... .. "a", function() end)) ]]
    -- A busy etcd may come to it later, but before it would end by itself.
    wait.eventually(function() return not etcd:leases()[1] end, 1, "the end of the lease")
  end)

  it("answers what is wrong with the environment", function()
    assert.matches("nil\t.*nowhere.*\tinvalid", run(
      [[ print(require("etcdlock").with_lock(... .. "a", error)) ]],
      { ETCDCTL_ENDPOINTS = "nowhere" }))
  end)

  it("waits while another process holds the lock", function()
    local lock = assert(client:lock "a")
    local child = proc.lua([[
      local endpoint, name = ...
      local client = assert(require("etcdlock").connect { endpoints = endpoint })
      print "asking"
      print(client:with_lock(name, function(lock) return "ran" end))
      client:close()
    ]], etcd:endpoints(), prefix .. "a")
    child:expect "^asking$"
    wait.eventually(function() return #client:queue "a" == 2 end)
    assert.same({}, child.lines)
    assert.is_true(lock:unlock())
    child:expect "^true\tran$"
    child:wait()
  end)
end)
