-- Programs that test waits, losses, lock modes and elections in an event loop. Each runs in
-- cqueues, luv and copas. See loops.lua beside this file for the functions that they use.

local loops = require "spec.support.programs.loops"
local suite = require "spec.support.harness.suite"

local WAITERS = tonumber(os.getenv "ETCDLOCK_WAITERS") or 1000

local stories = {
  { WAITERS .. " waiters share one descriptor and get the lock in FIFO order", function(name)
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

  { 'lock, with_lock and wait_lost return "timeout" when their timeout is over', [[
    local held = assert(other:lock "a")
    local mine = assert(client:lock("b", { owner = "x" }))
    go(function()
      times_out(1, function() return client:lock("a", { timeout = 1 }) end)
      fails("locked", client:try_lock "a")
    end)
    go(function()
      times_out(1.2, function() return client:with_lock("a", { timeout = 1.2 }, error) end)
    end)
    go(function()
      for _, seconds in ipairs { 0.3, 0.05 } do
        times_out(seconds, function() return mine:wait_lost(seconds) end)
      end
    end)
    run()
    equal(true, (held:held()))
  ]] },

  { 'the log function gets "waiting" during a wait, then "acquired" and "released"', [[
    local told = {}
    local watched = connect { log = function(event) told[#told + 1] = event.event end }
    local held = assert(other:lock "a")
    go(function()
      local lock = assert(watched:lock("a", { timeout = 60 }))
      sleep(0.001)
      assert(lock:unlock())
    end)
    go(function()
      while told[1] ~= "waiting" do sleep(0.005) end
      assert(held:unlock())
    end)
    run()
    equal("waiting acquired released", table.concat(told, " "))
    watched:close()
  ]] },

  { 'unlock blocks no coroutine and returns "unavailable" if etcd is silent for 2 s', function(name)
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
        assert(ticks > before + 10, "no other coroutine ran")
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

  { "every call that sends a request yields to other coroutines", [[
    -- An answer may arrive before a coroutine waits for it, but not every time.
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
        check("once", client, "b", "ever", function() end)
        check("runs", client)
        check("status", client)
        check("unlock", lock)
        check("with_lock", client, "a", function() end)
        lock = check("try_lock", client, "a")
        check("break_lock", other, "a", lock:token())
        assert(lock:wait_lost(5))
      end
      spin(false)
      for name, count in pairs(yielded) do assert(count > 0, name .. ": no other coroutine ran") end
    end)
    run()
  ]] },

  { "a lock that is garbage-collected while held is released to a waiter", [[
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

  { "coroutines that pass the same owner share one hold and its count", [[
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

  { "the function of with_lock can take the same lock again and wait for another lock", [[
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

  { "with_lock releases the lock after an error in its function and raises the same error", [[
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

  { 'lock, wait_lost and observer:next return "closed" when the client is closed', [[
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
      equal(nil, codes[1]) -- the waiting coroutines have not run yet
      fails("closed", client:lock "a")
      fails("closed", client:lock_async "a")
      client:close()
    end)
    run()
    equal("closed closed closed closed closed", table.concat(codes, " "))
    assert(held:unlock())
  ]] },

  { "coroutines wait with two clients at the same time, and each gets its lock", [[
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

  { "close leaves no descriptor open, and a new client can get the same descriptor number", [[
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
      -- gRPC closes its connections some time later.
      local deadline = core.now() + 5
      while descriptors() > before and core.now() < deadline do uv.sleep(5) end
      assert(descriptors() <= before, "a descriptor is left")
    end
    assert(again, "no descriptor number was reused, so reuse was not tested")
  ]] },

  { 'lock blocks outside the loop, and returns "deadlock" for a lock of the same process', [[
    local held = assert(other:lock "a")
    times_out(1, function() return client:lock("a", { timeout = 1 }) end)
    coroutine.wrap(function() assert(other:lock "b") end)()
    assert(held:unlock())
    go(function() assert(client:lock "a"):unlock() end)
    run()
    assert(client:lock "a"):unlock()
    local mine = assert(client:lock("c", { owner = "x" }))
    fails("deadlock", client:lock "c")
    assert(mine:unlock())
  ]] },

  { 'a client connected with loop = "none" blocks the loop while it waits', [[
    local blocking = connect { loop = "none" }
    local held = assert(other:lock "a")
    spin(true)
    go(function()
      local before = ticks
      times_out(1, function() return blocking:lock("a", { timeout = 1 }) end)
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

  { 'lock, ping and wait_lost return "context" inside a C function that cannot yield', [[
    local held = assert(other:lock "a")
    local refused = 0
    go(function()
      local mine = assert(client:lock "b")
      table.sort({ 2, 1 }, function(a, b)
        refused = refused + 1
        fails("context", client:lock "a")
        fails("context", client:ping())
        fails("context", mine:wait_lost(1))
        -- try_lock blocks the loop here, so its time limit is short.
        fails("locked", answered(function() return client:try_lock "a" end))
        return a < b
      end)
      assert(mine:unlock())
    end)
    run()
    assert(refused > 0)
    equal(1, #client:queue "a")
    assert(held:unlock())
  ]] },

  -- ---- losses ----

  { "a loss wakes every wait_lost and runs the on_lost handler", [[
    local lock = assert(client:lock("a", { owner = "x" }))
    local told, reason
    lock:on_lost(function(_, why) told = why end)
    go(function() reason = lock:wait_lost() end)
    go(function() equal("deleted", lock:wait_lost(5)) end)
    go(function() equal("deleted", lock:wait_lost(math.huge)) end)
    go(function()
      sleep(0.02)
      equal(nil, reason)
      equal(true, (other:break_lock("a", lock:token())))
    end)
    run()
    equal("deleted", reason)
    equal("deleted", told)
  ]] },

  -- Regression 045. A lock was released with linger, and a later hold took over its key. wait_lost
  -- of the released lock waited for the end of the later hold.
  { 'unlock ends wait_lost with "not_held", also if the lingering lock is taken again', [[
    local first = assert(client:lock("a", { linger = 60 }))
    go(function() fails("not_held", first:wait_lost()) end)
    go(function()
      sleep(0.02)
      equal(true, first:unlock())
      local second = assert(client:lock("a", { linger = 60 }))
      fails("not_held", first:wait_lost())
      fails("timeout", second:wait_lost(0.05))
    end)
    run()
  ]] },

  { 'get, txn and check return "not_held" if another hold has the key when the answer comes', [[
    local first, second = assert(client:lock("a", { linger = 60 })), nil
    local ask = client._run_txn
    local function await_second(...)
      while not second do sleep(0.005) end
      return ...
    end
    function client:_run_txn(...) return await_second(ask(self, ...)) end
    go(function() fails("not_held", first:get "x") end)
    go(function() fails("not_held", first:txn { { "get", "x" } }) end)
    go(function() fails("not_held", first:check()) end)
    go(function()
      sleep(0.02) -- meanwhile the other coroutines send their requests
      equal(true, first:unlock())
      second = assert(client:lock("a", { linger = 60 }))
      equal(first:token(), second:token())
      equal(false, (second:get "x"))
    end)
    run()
  ]] },

  { "an error in an on_lost handler ends the wait in which the handler runs", [[
    local held, mine = assert(other:lock "a"), assert(client:lock("b", { owner = "x" }))
    mine:on_lost(function() error("told", 0) end)
    local failure
    go(function()
      local lock = assert(client:lock("c", { owner = "y" }))
      local ok
      ok, failure = attempt(function() return client:lock "a" end)
      equal(false, ok)
      while #client:queue "a" > 1 do sleep(0.005) end
      assert(lock:unlock())
    end)
    go(function()
      while #other:queue "a" < 2 do sleep(0.005) end
      assert(other:break_lock("b", mine:token()))
      assert(other:lock("b")):unlock()
    end)
    run()
    assert(failure:find "told", failure)
    assert(held:unlock())
  ]] },

  -- ---- when the I/O thread wakes ----

  { "100 local handoffs wake the I/O thread at most 60 times", [[
    local wakings = require "spec.support.programs.wakings"
    -- The budget covers all 100 handoffs, so no waiter goes back to the queue in etcd.
    local shop = connect { handoff = 1000, handoff_time = 60 }
    local pid, before = require("luv").os_getpid(), nil
    local held = assert(shop:lock("a", { owner = "first" }))
    for _ = 1, 100 do
      go(function() assert(assert(shop:lock "a"):unlock()) end)
    end
    go(function()
      while shop:stats().waiting < 100 do sleep(0.005) end
      before = wakings(pid)
      assert(held:unlock())
    end)
    run()
    local count = wakings(pid) - before
    shop:close()
    if count > 60 then error(count .. " times") end
  ]] },

  { "a lock call with a timeout shorter than the I/O thread's sleep ends in time", [[
    local held = assert(client:lock("a", { owner = "first" }))
    local from
    go(function()
      sleep(0.3) -- the thread sleeps for long
      from = core.now()
      for _ = 1, 8 do fails("timeout", client:lock("a", { timeout = 0.05 })) end
      local took = core.now() - from
      if took > 4 then error(took .. " s") end
      assert(held:unlock())
    end)
    run()
  ]] },

  -- ---- lock modes ----

  { "unlock in any lock mode grants the next client its lock at once, despite a lock delay", [[
    local function kinds(one)
      return {
        function(opts) return one:lock("a", opts) end,
        function(opts) return one:write_lock("b", opts) end,
        function(opts) return one:semaphore("c", 1):lock(opts) end,
        function(opts) return one:multi_lock({ "d", "e" }, opts) end,
        function(opts) return one:election("f"):campaign("me", opts) end,
      }
    end
    local delayed = connect { lock_delay = 60 }
    delayed._held_locks._members = {}
    local held, asked, got = {}, kinds(client), 0
    for i, take in ipairs(kinds(delayed)) do held[i] = assert(take()) end
    for _, take in ipairs(asked) do
      go(function()
        local lock = assert(take())
        got = got + 1
        assert(lock:unlock())
      end)
    end
    local from = core.now()
    go(function()
      while client:stats().waiting < #held do sleep(0.001) end
      equal(0, got)
      for _, lock in ipairs(held) do assert(lock:unlock()) end
    end)
    run()
    equal(#held, got)
    took(0, from)
    delayed:close()
  ]] },
}

for _, story in ipairs(require "spec.support.programs.election_stories") do
  stories[#stories + 1] = story
end

return stories
