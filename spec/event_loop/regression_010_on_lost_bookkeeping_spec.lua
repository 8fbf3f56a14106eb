-- In an event loop, each unlock of a lock with an on_lost handler left an entry in the client's
-- tables. Besides, the wakeup for a loss could go to a coroutine that waited in unlock. unlock
-- calls no handlers, so the handler ran late.
local loops = require "spec.support.programs.loops"
local suite = require "spec.support.harness.suite"

it("regression 010: unlock of a lock with an on_lost handler leaves no table entry",
  loops.test("cqueues", [[
  local locks = {} -- not for the collector to forget
  local function entries()
    local n, losses = 0, client._loss_listeners
    for _, list in ipairs { client._wakeups._expected, losses._waiters, losses.locks } do
      for _ in pairs(list) do n = n + 1 end
    end
    return n
  end
  go(function()
    for _ = 1, 50 do
      assert(client:with_lock("a", function(lock)
        locks[#locks + 1] = lock
        lock:on_lost(error)
        fails("timeout", lock:wait_lost(0.001)) -- so that the core is asked for the news
        return true
      end))
    end
    collectgarbage()
    equal(0, entries())
  end)
  run()
]]))

it("regression 010: a dropped coroutine leaves no entry among the waits that a loss wakes",
  loops.test("cqueues", [[
  local cqueues = require "cqueues"
  local lock = assert(client:lock "a")
  lock:on_lost(function() end)
  local waited = assert(other:lock "b")
  for _ = 1, 5 do
    local job = cqueues.new()
    job:wrap(function() client:lock "b" end)
    job:loop(0.05)
  end
  for _ = 1, 2 do collectgarbage() end
  while client:stats().waiting > 0 do uv.sleep(5) end
  client._wakeups:deliver()
  equal(nil, next(client._loss_listeners._waiters))
  assert(waited:unlock())
  assert(lock:unlock())
]]))

it("regression 010: a loss wakes a coroutine in wait_lost, not only those in unlock", function()
  local etcd = suite.start()
  finally(function() etcd:stop() end)
  local child = loops.start("cqueues", [[
    go(function()
      local watched, told = assert(client:lock "watched"), nil
      watched:on_lost(function() told = core.now() end)
      local waited, others = assert(client:lock "a"), {}
      for i = 1, 9 do others[i] = assert(client:lock("b" .. i)) end
      print "ready"
      io.read()
      local from = core.now()
      assert(watched:expire(0.3))
      go(function() waited:wait_lost(3) end)
      for i = 1, 9 do go(function() others[i]:unlock() end) end
      while not told and core.now() < from + 3 do sleep(0.01) end
      equal(true, told ~= nil)
      assert(told - from < 1.9, told - from) -- an unlock waits for 2 s
      print "told"
      io.read()
    end)
    run()
  ]], etcd)
  child:expect "^ready"
  etcd:pause()
  child:send "go"
  local ok, failure = pcall(child.expect, child, "^told", 5)
  etcd:resume()
  assert(ok, failure)
  child:send "end"
  child:expect "^done"
  child:wait() -- otherwise the child is killed during its leak check
end)

it("regression 010: the on_lost handler runs for a loss before a wait, or beside a dropped wait",
  loops.test("cqueues", [[
  local cqueues = require "cqueues"
  local forgotten, job = assert(client:lock("f", { owner = "x" })), cqueues.new()
  job:wrap(function() forgotten:wait_lost() end)
  job:loop(0.05)
  job = nil
  local function on_loss_of(name, lose)
    go(function()
      local lock, told = assert(client:lock(name)), nil
      local waited = assert(client:lock(name .. "2"))
      lock:on_lost(function() told = true end)
      lose(lock, name)
      go(function()
        local from = core.now()
        while not told and core.now() < from + 10 do sleep(0.01) end
        equal(true, told)
        assert(waited:unlock())
      end)
      fails("not_held", waited:wait_lost(20))
    end)
    run()
  end
  on_loss_of("before", function(lock)
    assert(lock:expire(0.02))
    local ends = core.now() + 0.05
    repeat until core.now() > ends
  end)
  on_loss_of("beside", function(lock, name)
    go(function() assert(other:break_lock(name, lock:token())) end)
  end)
  assert(forgotten:unlock())
]]))
