-- Tests Ctrl-C (SIGINT) during a wait: the call raises "interrupted!" at once, and no entry is left
-- in the queue.

local lock

local PROMISED = 0.25 -- seconds within which Ctrl-C ends a wait

-- Starts a Lua program that connects and runs |source|, which can use `client`. The program prints
-- the outcome, and goes on with a try_lock after a line of input.
local function start(source)
  return proc.lua([[
    local endpoint, prefix, source = ...
    local client = assert(require("etcdlock").connect { endpoints = endpoint, prefix = prefix })
    local run = assert((loadstring or load)("local client = ... " .. source))
    print("done", pcall(run, client))
    io.read()
    print("again", pcall(client.try_lock, client, "b"))
    io.read()
    client:close()
  ]], etcd:endpoints(), prefix, source)
end

local function interrupt(child)
  wait.sleep(0.3) -- SIGINT shall arrive in the middle of the wait
  local from = wait.now()
  child:kill "sigint"
  local answer = child:expect "^done\tfalse\t(.*)"
  local took = wait.now() - from
  assert.matches("interrupted!", answer, 1, true)
  assert.is_true(took < PROMISED + wait.SLACK, took .. " s")
end

before_each(function() lock = assert(client:lock "a") end)

describe("Ctrl-C", function()
  for what, source in pairs {
    [""] = [[ return client:lock "a" ]],
    [" that directly follows another lock and unlock"] =
      [[ assert(client:lock("b"):unlock()) return client:lock "a" ]],
    [" that has a timeout"] = [[ return client:lock("a", { timeout = 60 }) ]],
  } do
    it("ends a wait for a lock" .. what .. ", and removes its entry from the queue", function()
      local child = start(source)
      wait.eventually(function() return #client:queue "a" == 2 end, 10)
      interrupt(child)
      wait.eventually(function() return #client:queue "a" == 1 end)
      assert.is_true(lock:check())
      child:send ""
      child:expect "^again\ttrue\tetcdlock.lock"
      child:send ""
      assert.equal(0, (child:wait()))
    end)
  end

  it("ends the wait of with_lock, which then does not call its function", function()
    local child = start [[
      return client:with_lock("a", function() print "ran" end)
    ]]
    wait.eventually(function() return #client:queue "a" == 2 end, 10)
    interrupt(child)
    lock:unlock()
    child:send ""
    child:expect "^again\ttrue"
    assert.is_nil(child.out.text:find("ran", 1, true))
    child:wait()
  end)

  it("ends the function of with_lock and releases the lock", function()
    if rawget(_G, "jit") then
      return pending "LuaJIT doesn't look for signals in compiled loops"
    end
    local child = start [[
      return client:with_lock("b", function(lock)
        print "running"
        while true do lock:held() end
      end)
    ]]
    child:expect "^running$"
    interrupt(child)
    assert.same({}, client:queue "b")
    child:wait()
  end)

  it("ends wait_lost and leaves the lock held", function()
    local child = start [[
      held = assert(client:lock "c")
      print "held"
      return held:wait_lost()
    ]]
    child:expect "^held$"
    interrupt(child)
    assert.equal(1, #client:queue "c")
    child:wait()
  end)

  it("ends a program that does not catch the error, and removes its entry and lease", function()
    local holder
    assert.is_true(lock:unlock())
    client:close()
    rounds.undisturbed(function(timed)
      holder = connect()
      clients.keep(assert(holder:lock "a"))
      local child = proc.lua([[
        local endpoint, prefix = ...
        local client = assert(require("etcdlock").connect { endpoints = endpoint, prefix = prefix })
        client:lock "a"
        print "never"
      ]], etcd:endpoints(), prefix)
      wait.eventually(function() return #holder:queue "a" == 2 end, 10)
      local code, signal = timed(function()
        child:kill "sigint"
        return child:wait(3)
      end)
      assert.same({ 1, 0 }, { code, signal })
      assert.matches("interrupted!", child:errors(), 1, true)
      assert.equal(1, #holder:queue "a")
      assert.same({ holder:lease() }, etcd:leases())
    end, function()
      proc.destroy_children()
      holder:close()
    end)
  end)
end)
