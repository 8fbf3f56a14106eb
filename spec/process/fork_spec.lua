-- Tests a forked child process: calls on inherited handles return "forked" and do not affect
-- the parent's locks. The child can connect only if the parent had no client before the fork.

-- A program in which a parent that holds a lock forks. The child runs |source| and exits at
-- once (|way| is "now") or with its finalizers; then the parent shows that it still holds.
local PARENT = [[
  local endpoint, prefix, source, way = ...
  -- What wait(2) would tell of a child that has ended: 0 is a clean exit.
  local function exit_status(pid)
    while true do
      local file = assert(io.open("/proc/" .. pid .. "/stat"))
      local state, rest = file:read "*a":match "%) (%a) (.*)"
      file:close()
      if state == "Z" then return rest:match "(%d+)%s*$" end
      os.execute "sleep 0.05"
    end
  end
  local etcdlock, test = require "etcdlock", require("etcdlock.core").test
  local client = assert(etcdlock.connect { endpoints = endpoint, prefix = prefix, ttl = 5 })
  local lock = assert(client:lock "a")
  local observer = client:election "b":observe()
  local env = setmetatable({ etcdlock = etcdlock, client = client, lock = lock,
    observer = observer, endpoint = endpoint, prefix = prefix }, { __index = _G })
  local run
  if setfenv then
    run = setfenv(assert(loadstring(source)), env)
  else
    run = assert(load(source, "=child", "t", env))
  end
  local pid = test.fork()
  if pid == 0 then
    local ok, failure = pcall(run)
    print("child: " .. tostring(ok and "fine" or failure))
    io.stdout:flush()
    if way == "now" then test.exit_now(0) end
    return -- the whole way: finalizers, then exit
  end
  print("child's end: " .. exit_status(pid))
  io.read()
  print("parent: " .. tostring(lock:check()) .. " " .. tostring(lock:unlock()))
  client:close()
]]

local runs = 0

-- Runs |source| in a forked child; asserts that it succeeds and that the parent still holds.
local function run(source, way)
  -- Each run has its own prefix, so that left keys do not fail the next test.
  runs = runs + 1
  local parent = proc.lua(PARENT, etcd:endpoints(), prefix .. runs .. "/", source, way or "now")
  assert.equal("fine", parent:expect("^child: (.*)", 15), parent:errors())
  parent:expect "^child's end: 0$"
  parent:send ""
  parent:expect "^parent: true true$"
  assert.equal(0, (parent:wait()))
  assert.equal("", parent:errors())
end

describe("a forked child", function()
  it('gets "forked" from calls on inherited handles, without a wait, and can read them', function()
    run [[
      local function check(ok, message, code)
        assert(not ok and type(message) == "string" and code == "forked",
          debug.traceback(tostring(code)))
      end
      check(client:lock "a")
      check(client:lock "b")
      check(client:try_lock "a")
      check(client:with_lock("a", error))
      check(client:wrap("a", error)())
      check(client:queue "a")
      check(client:break_lock("a", lock:token()))
      check(client:ping())
      check(client:election "b":campaign "x")
      check(client:election "b":leader())
      check(client:election "b":observe():next())
      check(observer:next())
      assert(observer:close() == true)
      check(lock:put(prefix .. "k", "v"))
      check(lock:get(prefix .. "k"))
      check(lock:delete(prefix .. "k"))
      check(lock:txn { { "get", prefix .. "k" } })
      check(lock:expire(100))
      check(lock:unlock())
      check(lock:unlock())
      local held, code = lock:held()
      assert(held == false and code == "forked")
      check(lock:check())
      check(lock:wait_lost(20))
      assert(lock:name() == "a" and lock:token() > 0 and lock:count() == 1)
      assert(lock:key():find(lock:lease(), 1, true))
      assert(client:stats().acquired == 1)
      assert(lock:remaining() == 0)
      local alive, why = client:alive()
      assert(alive == false and why == "forked")
      assert(tostring(lock):find("forked", 1, true))
      assert(tostring(client):find("forked", 1, true))
      assert(client:close() == true)
    ]]
  end)

  it("does not release the parent's lock when it collects its handles and exits", function()
    run([[
      lock, client = nil, nil
      collectgarbage()
      collectgarbage()
    ]], "whole")
  end)

  it("does not release the parent's lock by unlock and close", function()
    run([[
      lock:unlock()
      client:close()
    ]], "whole")
  end)

  -- The threads of gRPC do not exist in a child, so it has no means to connect.
  it('gets "forked" from connect and from etcdlock.with_lock', function()
    run([[
      local own, message, code = etcdlock.connect { endpoints = endpoint }
      assert(own == nil and code == "forked", message)
      assert(message:find("fork", 1, true))
      own, message, code = etcdlock.connect { endpoints = "127.0.0.1:1" }
      assert(own == nil and code == "forked", message)
      own, message, code = etcdlock.with_lock(prefix .. "b", error)
      assert(own == nil and code == "forked", message)
    ]], "whole")
  end)

  it('gets "forked" from connect if the parent had closed its client before the fork', function()
    local out, code, err = proc.run_lua("spec/support/programs/child.lua", { [[
      local endpoint, prefix = ...
      local etcdlock, test = require "etcdlock", require("etcdlock.core").test
      local client = assert(etcdlock.connect { endpoints = endpoint, prefix = prefix })
      assert(client:with_lock("a", { timeout = 5 }, function() end))
      client:close()
      if test.fork() == 0 then
        local own, message, code = etcdlock.connect { endpoints = endpoint, prefix = prefix }
        print("child", own, code, message)
        return
      end
      client = assert(etcdlock.connect { endpoints = endpoint, prefix = prefix })
      print("parent", client:with_lock("b", { timeout = 5 }, function() end))
      client:close()
      io.stdout:flush()
      os.execute "sleep 0.5" -- the child's turn
    ]], etcd:endpoints(), prefix }, { seconds = 20 })
    assert.equal(0, code, err)
    assert.matches("child\tnil\tforked\tthis process was forked", out, 1, true)
    assert.matches("parent\ttrue", out, 1, true)
  end)

  it("can use etcdlock.with_lock if it was forked before the parent used it", function()
    local out, code, err = proc.run_lua("spec/support/programs/child.lua", { [[
      local prefix = ...
      local etcdlock, test = require "etcdlock", require("etcdlock.core").test
      local pid = test.fork()
      print(pid == 0 and "child" or "parent", etcdlock.with_lock(prefix .. "a",
        { timeout = 5 }, function(lock) return lock:held() end))
      io.stdout:flush()
      if pid ~= 0 then os.execute "sleep 0.5" end -- the child's turn
    ]], prefix }, { env = { ETCDCTL_ENDPOINTS = etcd:endpoints() }, seconds = 20 })
    assert.equal(0, code, err)
    assert.matches("child\ttrue\ttrue", out, 1, true)
    assert.matches("parent\ttrue\ttrue", out, 1, true)
  end)

  local missing = not coroutine.close and "coroutine.close came with Lua 5.4"
    or loops.missing "cqueues"

  it("does not end the parent's waits in cqueues when it closes their coroutines",
    missing and function() pending(missing) end or loops.test("cqueues", [[
      local held, waiting, lock = assert(other:lock "a"), nil, nil
      go(function()
        waiting = coroutine.running()
        lock = assert(client:lock("a", { timeout = 10 }))
      end)
      go(function()
        repeat sleep(0.01) until #other:queue "a" == 2
        local child = core.test.fork()
        if child == 0 then
          assert(coroutine.close(waiting))
          core.test.exit_now(0)
        end
        local state
        repeat
          sleep(0.01)
          local file = assert(io.open("/proc/" .. child .. "/stat"))
          state = file:read "*a":match "%) (%a)"
          file:close()
        until state == "Z"
        assert(held:unlock())
        local from = core.now()
        repeat sleep(0.01) until lock or core.now() - from > 5
        assert(lock, "the parent is not woken")
        assert(lock:unlock())
      end)
      run()
    ]]))

  it("is not detected in a process that only started other programs", function()
    local lock = assert(client:lock "a")
    assert.equal("", (proc.run { "true" }))
    os.execute "true"
    assert.is_true(lock:held())
    assert.equal(core.pid(), client:queue "a"[1].pid)
  end)
end)
