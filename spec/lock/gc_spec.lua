-- Handles that are dropped instead of released, in every state, and programs
-- that end with work under way.

local cell = require "spec.support.harness.cell"
local clients = require "spec.support.harness.clients"
local etcdlock = require "etcdlock"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local client, other

local options = { endpoints = etcd:endpoints(), prefix = prefix }
local connect_other = clients.connector(options)

-- Not of clients.connector, which would keep it.
local function connect()
  return assert(etcdlock.connect(options))
end

local function collect()
  collectgarbage()
  collectgarbage()
end

-- What others see of a holder that forgot its lock, taken |times| (once). No stack keeps
-- it: that of a coroutine goes with it.
local function forget(times)
  coroutine.wrap(function()
    for _ = 1, times or 1 do assert(client:lock "a") end
  end)()
end

local function assert_gone(name)
  wait.eventually(function()
    return #other:queue(name) == 0
  end, 5, name .. " is free")
end

-- Calls fn(...) and raises "enough" in it after |seconds|, as Ctrl-C would.
local function interrupted(seconds, fn, ...)
  local deadline = wait.now() + seconds
  debug.sethook(function()
    if wait.now() > deadline then
      debug.sethook()
      error("enough", 0)
    end
  end, "", 1)
  local ok, failure = pcall(fn, ...)
  debug.sethook()
  assert.is_false(ok)
  assert.equal("enough", failure)
end

before_each(function()
  client, other = connect(), connect_other { elsewhere = true }
end)

after_each(function()
  if client then client:close() end
  clients.close_all()
end)

describe("a dropped handle", function()
  it("of a held lock releases it", function()
    forget()
    collect()
    assert_gone "a"
  end)

  it("of a lock that is held twice releases it as well", function()
    forget(2)
    collect()
    assert_gone "a"
  end)

  it("is not collected while it is in use", function()
    local lock = assert(client:lock "a")
    collect()
    assert.equal(lock, client:lock "a")
    assert.equal(2, lock:count())
  end)

  it("of a released, a lost and an expired lock does nothing", function()
    assert(client:lock "a"):unlock()
    do
      local lock = assert(client:lock "b")
      other:break_lock("b", lock:token())
      lock:wait_lost(5)
    end
    assert(client:lock("c", { max_hold = 0.05 })):wait_lost(5)
    local kept = { assert(client:lock "a"), assert(client:lock "b"), assert(client:lock "c") }
    collect()
    wait.sleep(0.1)
    for _, lock in ipairs(kept) do assert.is_true(lock:check()) end
  end)

  it("of a lost lock that nobody has heard of does nothing", function()
    do
      local lock = assert(client:lock "a")
      other:break_lock("a", lock:token())
    end
    collect()
    assert.is_true(assert(client:lock("a", { timeout = 5 })):check())
  end)

  it("with on_lost handlers goes like any other, and isn't told", function()
    local told = false
    do
      local lock = assert(client:lock "a")
      lock:on_lost(function() told = lock end)
    end
    collect()
    assert_gone "a"
    client:try_lock "b"
    assert.is_false(told)
  end)

  it("of a wait that was broken off leaves the queue", function()
    local lock = assert(other:lock "a")
    interrupted(0.1, client.lock, client, "a")
    wait.eventually(function() return #other:queue "a" == 1 end)
    assert.is_true(lock:check())
  end)

  it("of a question that was broken off is nobody's worry", function()
    local private = suite.start()
    local asking = assert(etcdlock.connect { endpoints = private:endpoints(), prefix = prefix })
    finally(function()
      asking:close()
      private:stop()
    end)
    assert(asking:ping())
    private:pause()
    interrupted(0.1, asking.queue, asking, "a")
    interrupted(0.1, asking.ping, asking)
    interrupted(0.1, asking.lock, asking, "a")
    collect()
    private:resume()
    assert.is_number(asking:ping())
    wait.eventually(function() return #asking:queue "a" == 0 end, 15)
  end)

  it("of a release that was broken off is released nevertheless", function()
    local private = suite.start()
    local one = assert(etcdlock.connect { endpoints = private:endpoints(), prefix = prefix })
    finally(function()
      one:close()
      private:stop()
    end)
    local lock = assert(one:lock "a")
    private:pause()
    interrupted(0.1, lock.unlock, lock)
    assert.is_false((lock:held()))
    lock = nil -- luacheck: ignore 311
    collect()
    private:resume()
    wait.eventually(function() return #one:queue "a" == 0 end, 5)
  end)

  it("of a client takes all its locks along when they are dropped too", function()
    do
      local lock = assert(client:lock "a")
      assert(lock:on_lost(function() return lock end))
      assert(client:lock "b")
      client = nil
    end
    collect()
    assert_gone "a"
    assert_gone "b"
    wait.eventually(function() return #etcd:leases() <= 1 end)
  end)

  it("of a client doesn't matter as long as one of its locks is there", function()
    local lock = assert(client:lock "a")
    client = nil
    collect()
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
  end)

  it("of a coroutine that was left with a lock releases it", function()
    local thread = coroutine.create(function()
      local lock = assert(client:lock "a")
      coroutine.yield()
      return lock
    end)
    assert.is_true(coroutine.resume(thread))
    assert.equal(1, #other:queue "a")
    thread = nil -- luacheck: ignore 311
    collect()
    assert_gone "a"
  end)
end)

describe("a hold whose owner is gone", function()
  it("doesn't keep the next owner waiting, even before it is collected", function()
    collectgarbage "stop"
    finally(function() collectgarbage "restart" end)
    forget()
    local lock, message = client:lock("a", { timeout = 5 })
    assert.is_truthy(lock, message)
    assert.is_true(lock:check())
  end)

  it("is collected each time that it stands in the way", function()
    collectgarbage "stop"
    finally(function() collectgarbage "restart" end)
    for _ = 1, 3 do
      forget()
      assert(assert(client:lock("a", { timeout = 5 })):unlock())
    end
  end)

  -- By a client that doesn't look like one of this program.
  it("is collected after a second in which somebody has waited", function()
    collectgarbage "stop"
    finally(function() collectgarbage "restart" end)
    coroutine.wrap(function() assert(other:lock "a") end)()
    assert(assert(client:lock("a", { timeout = 5 })):unlock())
  end)

  it("makes the next owner's try fail until it is collected", function()
    collectgarbage "stop"
    finally(function() collectgarbage "restart" end)
    forget()
    assert.equal("locked", select(3, client:try_lock "a"))
    collect()
    wait.eventually(function()
      local lock = client:try_lock "a"
      return lock and lock:check()
    end)
  end)
end)

describe("an aggressive collector", function()
  local WORK = [[
    local endpoint, prefix, mode = ...
    local etcdlock = require "etcdlock"
    if mode == "generational" then
      collectgarbage "generational"
    else
      collectgarbage("setpause", 0)
      collectgarbage("setstepmul", 1000000)
    end
    -- A full collection every few instructions.
    debug.sethook(function() collectgarbage() end, "", 7)
    local client = assert(etcdlock.connect {
      endpoints = endpoint, prefix = prefix, log = function() end,
    })
    for i = 1, 5 do
      local lock = assert(client:lock("a", { value = "v" .. i, owner = "me" }))
      assert(lock:on_lost(function() error "lost" end))
      assert(lock == client:lock("a", { owner = "me" }))
      assert(lock:check())
      assert(#client:queue "a" == 1)
      assert(lock:put(prefix .. "data", "x" .. i))
      assert(lock:get(prefix .. "data") == "x" .. i)
      assert(lock:txn { { "get", prefix .. "data" }, { "delete", prefix .. "data" } }[2])
      assert(not client:try_lock("a", { owner = "you" }))
      assert(lock:unlock())
      assert(lock:unlock())
      assert(client:with_lock("b", function(held) return held:held() end))
      assert(not pcall(client.with_lock, client, "b", error))
      assert(client:lock("dropped" .. i, { timeout = 10 }))
      local short = assert(client:lock("c", { max_hold = 0.05, timeout = 10 }))
      assert(short:wait_lost(10) == "max_hold")
      assert(tostring(client) and tostring(lock) and client:stats() and client:ping())
    end
    debug.sethook()
    print "through"
    io.read()
    collectgarbage()
    collectgarbage()
    print "collected"
    io.read()
  ]]

  local function work(mode)
    local child = proc.lua(WORK, etcd:endpoints(), prefix, mode)
    child:expect("^through$", 60)
    child:send ""
    child:expect "^collected$"
    etcd:await_keys(prefix, 0)
    assert.equal(0, (child:wait()))
    assert.equal("", child:errors())
  end

  it("breaks nothing", function() work "incremental" end)

  it("breaks nothing in generations either", function()
    if _VERSION ~= "Lua 5.4" then return pending "generations came with Lua 5.4" end
    work "generational"
  end)
end)

describe("the end of a program", function()
  -- Runs |source| with an unclosed client and the name a; returns the child,
  -- which has ended. What it leaves to its lease is there for |ttl| seconds (20).
  local function run(source, expected_code, ttl)
    local child = proc.lua([[
      local endpoint, prefix, source, ttl = ...
      local etcdlock, core = require "etcdlock", require "etcdlock.core"
      local env = setmetatable({ etcdlock = etcdlock, core = core, endpoint = endpoint,
        prefix = prefix }, { __index = _G })
      env.client = assert(etcdlock.connect { endpoints = endpoint, prefix = prefix,
        ttl = tonumber(ttl) })
      local run
      if setfenv then
        run = setfenv(assert(loadstring(source)), env)
      else
        run = assert(load(source, "=source", "t", env))
      end
      KEEP = env
      run()
    ]], etcd:endpoints(), prefix, source, ttl or 20)
    local code, signal = child:wait(10)
    assert.same({ expected_code or 0, 0 }, { code, signal }, child:errors())
    return child
  end

  -- A busy etcd may come to it later, but long before it would end a lease.
  local function assert_nothing_left()
    wait.eventually(function() return not etcd:keys(prefix)[1] and not etcd:leases()[1] end, 1,
      "nothing left")
  end

  it("releases what it holds", function()
    run [[ lock = assert(client:lock "a") ]]
    assert_nothing_left()
  end)

  it("releases a thousand locks", function()
    -- In the half second that it gives to etcd; a sanitizer makes that less.
    run(([[
      locks = {}
      for i = 1, %d do locks[i] = assert(client:lock("a" .. i)) end
    ]]):format(cell.is_sanitized and 100 or 1000))
    assert_nothing_left()
  end)

  it("gives up the waits that are under way", function()
    local lock = assert(other:lock "a")
    run [[
      waits = {}
      for i = 1, 3 do waits[i] = assert(client._core:lock(prefix .. "a", "")) end
      repeat until #client:queue "a" == 2
    ]]
    assert.equal(1, #other:queue "a")
    assert.is_true(lock:check())
    assert.same({ other:lease() }, etcd:leases())
  end)

  it("doesn't wait for questions that are under way", function()
    run [[
      for i = 1, 10 do
        local txn = client._core:txn()
        txn:get(prefix .. "k")
        assert(txn:start(5))
        client._core:lock(prefix .. "n" .. i, "")
      end
    ]]
    assert_nothing_left()
  end)

  it("may come right after connect, and with many clients", function()
    run [[
      clients = {}
      for i = 1, 20 do
        clients[i] = assert(etcdlock.connect { endpoints = endpoint })
      end
      assert(clients[7]:ping())
    ]]
    assert_nothing_left()
  end)

  it("may come by an error", function()
    local child = run([[ lock = assert(client:lock "a") error "oops" ]], 1)
    assert.matches("oops", child:errors())
    assert_nothing_left()
  end)

  it("may come within with_lock", function()
    run [[
      client:with_lock("a", function(lock) kept = lock end)
      lock = assert(client:lock "b")
    ]]
    assert_nothing_left()
    if _VERSION ~= "Lua 5.1" then
      run([[ client:with_lock("a", function() os.exit(3, true) end) ]], 3)
      assert_nothing_left()
    end
  end)

  it("without its finalizers leaves the rest to the lease", function()
    run([[ lock = assert(client:lock "a") os.exit(4) ]], 4, 2)
    assert.equal(1, #other:queue "a")
    wait.eventually(function() return #other:queue "a" == 0 end, 6)
  end)

  it("closes a client that was closed before, with handles around", function()
    run [[
      lock = assert(client:lock "a")
      handlers = { lock:on_lost(print) }
      client:close()
      lock:unlock()
    ]]
    assert_nothing_left()
  end)

  it("doesn't wait long for an etcd that doesn't answer", function()
    local private = suite.start()
    finally(function() private:stop() end)
    local child = proc.lua([[
      local endpoints, prefix = ...
      local client = assert(require("etcdlock").connect { endpoints = endpoints, prefix = prefix })
      lock = assert(client:lock "a")
      print "held"
      io.read()
    ]], private:endpoints(), prefix)
    child:expect "^held$"
    private:pause()
    local from = wait.now()
    assert.same({ 0, 0 }, { child:wait(5) })
    assert.is_true(wait.now() - from < 0.5 + wait.SLACK)
    private:resume()
  end)
end)
