-- Tests that a coroutine that waits in cqueues does not block the other coroutines. The test
-- programs are those of spec/support/programs/loop_stories.lua.

-- Programs that need features of cqueues.
local OWN = {
  { "coroutines of two nested controllers wait for one lock with the same client", [[
    local inner = cqueues.new()
    local held, got = assert(other:lock "a"), {}
    go(function()
      local lock = assert(client:lock "a")
      got[#got + 1] = "outer"
      assert(lock:unlock())
    end)
    inner:wrap(function()
      while #other:queue "a" < 2 do sleep(0.005) end
      local lock = assert(client:lock "a")
      got[#got + 1] = "inner"
      assert(lock:unlock())
    end)
    go(function() assert(inner:loop()) end)
    go(function()
      while client:stats().waiting < 2 do sleep(0.005) end
      assert(held:unlock())
    end)
    run()
    equal("outer inner", table.concat(got, " "))
    equal(true, inner:empty())
  ]] },

  { "coroutines of two separate controllers get one lock in FIFO order", [[
    local second = cqueues.new()
    local held, got = assert(other:lock "a"), {}
    for i, one in ipairs { controller, second, controller, second } do
      one:wrap(function()
        local lock = assert(client:lock "a")
        got[#got + 1] = i
        assert(lock:unlock())
      end)
      assert(one:step(0))
    end
    assert(held:unlock())
    local deadline = core.now() + 10
    while not (controller:empty() and second:empty()) and core.now() < deadline do
      assert(controller:step(0.005))
      assert(second:step(0.005))
    end
    equal("1 2 3 4", table.concat(got, " "))
    run()
  ]] },

  { "an uncaught error in the function of with_lock ends the loop and releases the lock", [[
    go(function()
      client:with_lock("a", function()
        sleep(0.01)
        error("oops", 0)
      end)
    end)
    local ok, failure = controller:loop(10)
    equal(false, ok)
    equal("oops", failure)
    live = 0
    run()
    equal(0, #client:queue "a")
    assert(client:lock("a", { timeout = 5 })):unlock()
  ]] },

  { "a lock call in a nested coroutine blocks instead of yielding", [[
    local held = assert(other:lock "a")
    local results
    go(function()
      results = { coroutine.wrap(function()
        return answered(function() return client:lock("a", { timeout = 1 }) end)
      end)() }
    end)
    run()
    equal("timeout", results[3])
    assert(held:unlock())
  ]] },

  { 'ping of an unreachable etcd returns "closed" at once when the client is closed', [[
    local lost = connect { endpoints = "127.0.0.1:1" }
    go(function() fails("closed", lost:ping()) end)
    local from = core.now()
    go(function()
      sleep(0.5)
      lost:close()
    end)
    run()
    took(0.5, from)
  ]] },

  { "the loop makes at most 500 steps while three coroutines wait for 0.5 s", [[
    local held, rounds = assert(other:lock "a"), 0
    for i = 1, 3 do
      assert(client:lock("b" .. i)):unlock()
      go(function() assert(client:lock("a", { timeout = 5 })):unlock() end)
    end
    go(function()
      while #other:queue "a" < 2 do sleep(0.005) end
      local ends = core.now() + 0.5
      while core.now() < ends do
        sleep(0.1)
        rounds = rounds + 1
      end
      assert(held:unlock())
    end)
    local steps = 0
    while not controller:empty() do
      assert(controller:step())
      steps = steps + 1
    end
    if steps > 500 then error(steps .. " steps") end
    live = 0
    run()
  ]] },

  { "sockets and sleeps work while a coroutine waits for a lock", [[
    local socket = require "cqueues.socket"
    local near, far = socket.pair()
    local held, events = assert(other:lock "a"), {}
    go(function()
      assert(client:lock "a"):unlock()
      events[#events + 1] = "lock"
    end)
    go(function()
      events[#events + 1] = near:read "*l"
      assert(held:unlock())
    end)
    go(function()
      while client:stats().waiting < 1 do sleep(0.005) end
      far:write "line\n"
      far:flush()
    end)
    run()
    equal("line lock", table.concat(events, " "))
  ]] },
}

describe("in cqueues", function()
  local missing = loops.missing "cqueues"
  if missing then return pending(missing) end

  for _, list in ipairs { stories, OWN } do
    for _, story in ipairs(list) do it(story[1], loops.test("cqueues", story[2])) end
  end
end)
