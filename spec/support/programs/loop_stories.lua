-- What must hold in every event loop; see spec/support/programs/loops.lua for the words
-- that these programs use.

local loops = require "spec.support.programs.loops"
local suite = require "spec.support.harness.suite"

local WAITERS = tonumber(os.getenv "ETCDLOCK_WAITERS") or 1000

return {
  { "others go on while one waits", [[
    local held = assert(other:lock "a")
    local events = {}
    go(function()
      local lock = assert(client:lock "a")
      events[#events + 1] = "got"
      equal(true, lock:unlock())
      equal(false, (lock:held()))
    end)
    go(function()
      for _ = 1, 20 do sleep(0.005) end
      events[#events + 1] = "worked"
      equal(true, held:unlock())
    end)
    run()
    equal("worked got", table.concat(events, " "))
  ]] },

  { WAITERS .. " waiters share one descriptor and are served in their order", function(name)
    local child = loops.start(name, [[
    local N = ]] .. WAITERS .. [[

    local asked, served, inside = {}, {}, 0
    local held = assert(other:lock "a")
    local before, during
    for i = 1, N do
      go(function()
        asked[#asked + 1] = i
        local lock = assert(client:lock "a")
        inside = inside + 1
        equal(1, inside)
        served[#served + 1] = i
        if i % 10 == 0 then sleep(0) end
        equal(1, inside)
        inside = inside - 1
        assert(lock:unlock())
      end)
    end
    go(function()
      while #asked < 1 do sleep(0.001) end
      sleep(0.05)
      before = descriptors()
      while #asked < N do sleep(0.001) end
      sleep(0.05)
      during = descriptors()
      assert(held:unlock())
    end)
    local from = core.now()
    run()
    equal(before, during)
    equal(N, #served)
    for i = 1, N do equal(asked[i], served[i]) end
    print(("took %.2f s"):format(core.now() - from))
    ]])
    local status = loops.finish(child, 30 + WAITERS / 100)
    if os.getenv "ETCDLOCK_WAITERS" then
      print(("  %d waiters in %s %s"):format(WAITERS, name, child.out.text:match "took %S+ s"))
    end
    return status
  end },

  { "a wait ends when its time is over", [[
    local held = assert(other:lock "a")
    local mine = assert(client:lock("b", { owner = "x" }))
    go(function()
      local from = core.now()
      fails("timeout", client:lock("a", { timeout = 1 }))
      took(1, from)
      fails("locked", client:try_lock "a")
    end)
    go(function()
      local from = core.now()
      fails("timeout", client:with_lock("a", { timeout = 1.2 }, error))
      took(1.2, from)
    end)
    go(function()
      local from = core.now()
      fails("timeout", mine:wait_lost(0.3))
      took(0.3, from)
      from = core.now()
      fails("timeout", mine:wait_lost(0.05))
      took(0.05, from)
    end)
    run()
    equal(true, (held:held()))
  ]] },

  { "unlock waits 2 s for an etcd that doesn't answer", function(name)
    local etcd = suite.start()
    local child = loops.start(name, [[
      local lock = assert(client:lock("a", { owner = "x" }))
      print "locked"
      io.read()
      spin(true)
      go(function()
        local from, before = core.now(), ticks
        fails("unavailable", lock:unlock())
        took(2, from)
        assert(ticks > before + 10, "the others stood still")
        spin(false)
      end)
      run()
    ]], etcd)
    child:expect "^locked$"
    for i = 1, #etcd.members do etcd:pause(i) end
    child:send "go"
    local status = loops.finish(child, 10)
    etcd:stop()
    return status
  end },

  { "whatever asks etcd yields", [[
    -- An answer may be there before anybody had to wait for it, but not always.
    local yielded = {}
    local function check(name, object, ...)
      local before = ticks
      local results = { object[name](object, ...) }
      assert(results[1] ~= nil, results[2])
      yielded[name] = (yielded[name] or 0) + ticks - before
      return results[1]
    end
    spin(true)
    go(function()
      local function is_done()
        for _, count in pairs(yielded) do
          if count == 0 then return false end
        end
        return next(yielded)
      end
      for _ = 1, 200 do
        if is_done() then break end
        local lock = check("lock", client, "a")
        check("put", lock, prefix .. "data", "1")
        equal("1", check("get", lock, prefix .. "data"))
        check("txn", lock, { { "put", prefix .. "data", "2" } })
        check("delete", lock, prefix .. "data")
        equal(true, check("check", lock))
        equal(1, #check("queue", client, "a"))
        check("ping", client)
        check("queues", client)
        check("status", client)
        check("unlock", lock)
        check("with_lock", client, "a", function() end)
        lock = check("try_lock", client, "a")
        check("break_lock", other, "a", lock:token())
        assert(lock:wait_lost(5))
      end
      spin(false)
      for name, count in pairs(yielded) do assert(count > 0, name .. ": the others stood still") end
    end)
    run()
  ]] },

  { "two coroutines never hold at once, and wait for each other", [[
    local inside, most, order = 0, 0, {}
    for i = 1, 3 do
      go(function()
        for _ = 1, 3 do
          local lock = assert(client:lock "a")
          inside = inside + 1
          most = math.max(most, inside)
          order[#order + 1] = i
          sleep(0.01)
          fails("timeout", client:lock("a", { timeout = 0.01, owner = "somebody else" }))
          inside = inside - 1
          assert(lock:unlock())
        end
      end)
    end
    run()
    equal(1, most)
    equal(9, #order)
    for i = 4, 9 do equal(order[i - 3], order[i]) end
  ]] },

  { "a try is told that another coroutine holds it", [[
    local held, tried
    go(function()
      held = assert(client:lock "a")
      while not tried do sleep(0.005) end
      assert(held:unlock())
    end)
    go(function()
      while not held do sleep(0.005) end
      fails("locked", client:try_lock "a")
      tried = true
      assert(client:lock "a"):unlock()
    end)
    run()
  ]] },

  { "a hold that was dropped is released when Lua collects it", [[
    local taken, got
    go(function()
      assert(client:lock "a")
      taken = true
    end)
    go(function()
      while not got and (not taken or client:stats().waiting == 0) do sleep(0.005) end
      for _ = 1, 2 do collectgarbage() end
    end)
    go(function()
      while not taken do sleep(0.005) end
      assert(client:lock("a", { timeout = 5 })):unlock()
      got = true
    end)
    run()
  ]] },

  { "coroutines that name one owner share a lock", [[
    local first, second
    go(function()
      first = assert(client:lock("a", { owner = "both" }))
      while not second do sleep(0.005) end
      assert(first:unlock())
    end)
    go(function()
      while not first do sleep(0.005) end
      local lock = assert(client:lock("a", { owner = "both" }))
      equal(first, lock)
      equal(2, lock:count())
      second = true
      while lock:count() == 2 do sleep(0.005) end
      equal(1, lock:count())
      assert(lock:unlock())
      equal(false, (lock:held()))
    end)
    run()
  ]] },

  { "a coroutine gets its own lock again under with_lock, and waits there", [[
    local held, results = assert(other:lock "b"), nil
    go(function()
      sleep(0.05)
      assert(held:unlock())
    end)
    go(function()
      results = { client:with_lock("a", function(lock)
        sleep(0.01)
        equal(lock, client:lock "a")
        equal(2, lock:count())
        assert(lock:unlock())
        local inner = { client:with_lock("b", function(...)
          sleep(0.01)
          return select("#", ...), nil
        end) }
        equal(1, inner[2])
        return "result"
      end) }
    end)
    run()
    equal(true, results[1])
    equal("result", results[2])
  ]] },

  { "an error under with_lock releases the lock", [[
    local failure, caught = {}, nil
    go(function()
      local ok
      ok, caught = attempt(client.with_lock, client, "a", function()
        sleep(0.01)
        error(failure)
      end)
      equal(false, ok)
      equal(failure, caught)
      equal(0, #client:queue "a")
      ok, caught = attempt(client.with_lock, client, "a", function() error "text" end)
      equal(false, ok)
    end)
    run()
    assert(caught:find "text", caught)
    assert(etcdlock.traceback():find "child:%d+: text\nstack traceback", etcdlock.traceback())
  ]] },

  { "those who wait for a client that is closed are told so", [[
    local held, codes = assert(other:lock "a"), {}
    local lost = assert(client:lock("b", { owner = "x" }))
    for i = 1, 5 do
      go(function()
        local lock, message, code = client:lock "a"
        equal(nil, lock)
        assert(message:find "closed", message)
        codes[i] = code
      end)
    end
    go(function() fails("closed", lost:wait_lost()) end)
    go(function() fails("closed", client:election "e":observe():next()) end)
    go(function()
      while #other:queue "a" < 2 do sleep(0.005) end
      sleep(0.02)
      client:close()
      equal(nil, codes[1]) -- they run when it is their turn
      fails("closed", client:lock "a")
      fails("closed", client:lock_async "a")
      client:close()
    end)
    run()
    equal("closed closed closed closed closed", table.concat(codes, " "))
    assert(held:unlock())
  ]] },

  { "two clients wait side by side", [[
    local held = { assert(connect { owner = nil }:lock "a"), assert(connect():lock "b") }
    local got = {}
    go(function() got[1] = assert(client:lock "a") end)
    go(function() got[2] = assert(other:lock "b") end)
    go(function()
      sleep(0.03)
      assert(held[2]:unlock())
      while not got[2] do sleep(0.005) end
      equal(nil, got[1])
      assert(held[1]:unlock())
    end)
    run()
    assert(got[1]:held() and got[2]:held())
  ]] },

  { "nothing is left when a client is closed, and its descriptor's number works again", [[
    client:close()
    other:close()
    go(function() sleep(0.01) end) -- the loop's own descriptors
    run()
    local before, numbers, rounds, again = descriptors(), {}, 0, false
    while rounds < 8 or not again and rounds < 50 do
      rounds = rounds + 1
      local one, two = connect(), connect()
      local held, waits = assert(one:lock "a"), true
      go(function() fails("closed", two:lock "a") end)
      go(function() fails("timeout", one:lock("a", { timeout = 0.3 })) waits = false end)
      go(function()
        sleep(0.05)
        two:close()
        while waits do sleep(0.005) end
        local number = one._core:wake_fd()
        again = again or numbers[number]
        numbers[number] = true
        assert(held:unlock())
        assert(one:lock("a", { timeout = 5 })):unlock()
        one:close()
      end)
      run()
      -- gRPC closes its connections when it finds the time.
      local deadline = core.now() + 5
      while descriptors() > before and core.now() < deadline do uv.sleep(5) end
      assert(descriptors() <= before, "a descriptor is left")
    end
    assert(again, "no number was used again: this tests nothing")
  ]] },

  { "outside of it the same client blocks", [[
    local held = assert(other:lock "a")
    local from = core.now()
    fails("timeout", client:lock("a", { timeout = 1 }))
    took(1, from)
    coroutine.wrap(function() assert(other:lock "b") end)()
    assert(held:unlock())
    go(function() assert(client:lock "a"):unlock() end)
    run()
    assert(client:lock "a"):unlock()
    local mine = assert(client:lock("c", { owner = "x" }))
    fails("deadlock", client:lock "c")
    assert(mine:unlock())
  ]] },

  { 'loop = "none" blocks', [[
    local blocking = connect { loop = "none" }
    local held = assert(other:lock "a")
    spin(true)
    go(function()
      local before, from = ticks, core.now()
      fails("timeout", blocking:lock("a", { timeout = 1 }))
      took(1, from)
      equal(before, ticks)
      local lock = assert(blocking:lock("b", { owner = "x" }))
      fails("deadlock", blocking:lock "b")
      assert(lock:unlock())
      spin(false)
    end)
    run()
    assert(held:unlock())
    blocking:close()
  ]] },

  { "where a coroutine can't be left it is refused", [[
    local held = assert(other:lock "a")
    local refused = 0
    go(function()
      local mine = assert(client:lock "b")
      table.sort({ 2, 1 }, function(a, b)
        refused = refused + 1
        fails("context", client:lock "a")
        fails("context", client:ping())
        fails("context", mine:wait_lost(1))
        -- A try that stops the loop gives etcd little time.
        local code
        repeat code = select(3, client:try_lock "a") until code ~= "unavailable"
        equal("locked", code)
        return a < b
      end)
      assert(mine:unlock())
    end)
    run()
    assert(refused > 0)
    equal(1, #client:queue "a")
    assert(held:unlock())
  ]] },
}
