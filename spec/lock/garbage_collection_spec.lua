-- Tests handles that are dropped, in every state, instead of released. Also tests programs that end
-- while they hold locks or wait for etcd.

local client -- to which nothing else refers; the fixture would keep it

local options = { endpoints = etcd:endpoints(), prefix = prefix }
client_options(options)

local function collect()
  collectgarbage()
  collectgarbage()
end

-- Takes the lock "a" |times| times (1) and drops it. The calls run in a coroutine, because the
-- stack of the main coroutine might still refer to the handle.
local function forget(times)
  coroutine.wrap(function()
    for _ = 1, times or 1 do assert(client:lock "a") end
  end)()
end

local function assert_gone(name)
  wait.eventually(function() return #other:queue(name) == 0 end, 5, name .. " is free")
end

-- Calls |fn|(...) and raises "enough" in it after |seconds|, as Ctrl-C would.
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

before_each(function() client = assert(etcdlock.connect(options)) end)

after_each(function()
  if client then client:close() end
end)

describe("a handle", function()
  it("of a lock with count 2 releases the lock when it is collected", function()
    forget(2)
    collect()
    assert_gone "a"
  end)

  it("of a held lock is not collected while a variable refers to it", function()
    local lock = assert(client:lock "a")
    collect()
    assert.equal(lock, client:lock "a")
    assert.equal(2, lock:count())
  end)

  it("of a released, lost or expired lock ends no later hold when it is collected", function()
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

  it("collected right after break_lock lets its client lock the name again", function()
    do
      local lock = assert(client:lock "a")
      other:break_lock("a", lock:token())
    end
    collect()
    assert.is_true(assert(client:lock("a", { timeout = 5 })):check())
  end)

  it("with an on_lost handler releases its lock without calling the handler", function()
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

  it("of an interrupted wait leaves the queue", function()
    local lock = assert(other:lock "a")
    interrupted(0.1, client.lock, client, "a")
    wait.eventually(function() return #other:queue "a" == 1 end)
    assert.is_true(lock:check())
  end)

  it("of an interrupted request leaves the client usable and no queue entry", function()
    local private = suite.start()
    local asking = connect { endpoints = private:endpoints() }
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

  it("of a lock still releases it after its unlock was interrupted", function()
    local private = suite.start()
    local one = connect { endpoints = private:endpoints() }
    local lock = assert(one:lock "a")
    private:pause()
    interrupted(0.1, lock.unlock, lock)
    assert.is_false((lock:held()))
    lock = nil -- luacheck: ignore 311
    collect()
    private:resume()
    wait.eventually(function() return #one:queue "a" == 0 end, 5)
  end)

  it("of a client ends its locks and its lease when all are collected together", function()
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

  it("of a client may be dropped while one of its locks is still in use", function()
    local lock = assert(client:lock "a")
    client = nil
    collect()
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
  end)

  it("in an abandoned coroutine releases its lock when the coroutine is collected", function()
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

describe("a lock that was dropped without unlock", function()
  before_each(function() collectgarbage "stop" end)
  after_each(function() collectgarbage "restart" end)

  it("is collected by each of three lock calls that it blocks", function()
    for _ = 1, 3 do
      forget()
      assert(assert(client:lock("a", { timeout = 5 })):unlock())
    end
  end)

  -- The clients act as if they were in two processes, so they detect no deadlock. A wait that
  -- blocks the process runs a garbage collection after 1 s.
  it("is collected within 5 s if another client waits for it", function()
    coroutine.wrap(function() assert(other:lock "a") end)()
    assert(assert(client:lock("a", { timeout = 5 })):unlock())
  end)

  it("makes try_lock return locked until it is collected", function()
    forget()
    assert.equal("locked", select(3, client:try_lock "a"))
    collect()
    wait.eventually(function()
      local lock = client:try_lock "a"
      return lock and lock:check()
    end)
  end)
end)

describe("a full garbage collection every 7 instructions", function()
  local WORK = [[
    local endpoint, prefix, mode = ...
    local etcdlock = require "etcdlock"
    if mode == "generational" then
      collectgarbage "generational"
    else
      if _VERSION == "Lua 5.5" then
        collectgarbage("param", "pause", 0)
        collectgarbage("param", "stepmul", 1000000)
      else
        collectgarbage("setpause", 0)
        collectgarbage("setstepmul", 1000000)
      end
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

  it("breaks no call", function() work "incremental" end)

  it("breaks no call in generational mode", function()
    if not coroutine.close then return pending "generations came with Lua 5.4" end
    work "generational"
  end)
end)

describe("the end of a program", function()
  -- Runs |source|, Lua text, in a process with an open client of |ttl| seconds (20), and waits for
  -- its end with |expected_code| (0). Returns the ended child.
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

  -- The limit of 1 s is enough for a busy etcd. It is far below the TTL, so no lease can have
  -- expired.
  local function assert_nothing_left()
    wait.eventually(function() return not etcd:keys(prefix)[1] and not etcd:leases()[1] end, 1,
      "nothing left")
  end

  it("releases 1,000 held locks", function()
    -- At exit the client has 0.5 s for these releases. With a sanitizer, this is enough for fewer
    -- locks.
    run(([[
      locks = {}
      for i = 1, %d do locks[i] = assert(client:lock("a" .. i)) end
    ]]):format(matrix.is_sanitized and 100 or 1000))
    assert_nothing_left()
  end)

  it("with requests in flight leaves no key and no lease", function()
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

  it("right after connect of 20 clients leaves no key and no lease", function()
    run [[
      clients = {}
      for i = 1, 20 do
        clients[i] = assert(etcdlock.connect { endpoints = endpoint })
      end
      assert(clients[7]:ping())
    ]]
    assert_nothing_left()
  end)

  -- os.exit of Lua 5.1 cannot close the state.
  if _VERSION ~= "Lua 5.1" or rawget(_G, "jit") then
    it("by os.exit(code, true) inside with_lock leaves no key and no lease", function()
      run([[ client:with_lock("a", function() os.exit(3, true) end) ]], 3)
      assert_nothing_left()
    end)
  end

  it("without finalizers leaves held keys until their lease ends", function()
    run([[ client:with_lock("a", function() os.exit(4) end) ]], 4, 2)
    assert.equal(1, #other:queue "a")
    wait.eventually(function() return #other:queue "a" == 0 end, 6)
  end)
end)
