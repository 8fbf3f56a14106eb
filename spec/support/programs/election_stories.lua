-- Programs that test elections and their observers in an event loop; each runs in cqueues, luv and
-- copas. See loops.lua beside this file for the functions that they use.

return {
  { "an observer reports leaders while other coroutines run, until it is closed", [[
    local seen, codes = {}, {}
    local observer = client:election "e":observe()
    spin(true)
    go(function()
      local before = ticks
      while true do
        local value, message, code = observer:next(5)
        if value == nil then
          assert(message:find "closed", message)
          codes[1] = code
          break
        end
        seen[#seen + 1] = value or "nobody"
      end
      assert(ticks > before, "no other coroutine ran")
      spin(false)
    end)
    go(function()
      local observer = client:election "nobody's":observe()
      fails("timeout", answered(function() return observer:next(1) end))
    end)
    go(function()
      local election, before = other:election "e", ticks
      local lock = assert(election:campaign "1")
      while #seen < 1 do sleep(0.005) end
      assert(lock:proclaim "2")
      while #seen < 2 do sleep(0.005) end
      local heir = assert(other:election "e":campaign_async("3", { owner = "heir" }))
      while #other:queue "e" < 2 do sleep(0.005) end
      equal("2", (election:leader()))
      assert(lock:resign())
      while #seen < 3 do sleep(0.005) end
      repeat
        sleep(0.005)
        lock = heir:step()
      until lock
      equal("3", (client:election "e":leader()))
      assert(lock:resign())
      assert(ticks > before, "no other coroutine ran")
      while #seen < 4 do sleep(0.005) end
      observer:close()
    end)
    run()
    equal("1 2 3 nobody", table.concat(seen, " "))
    equal("closed", codes[1])
    equal(false, (client:election "e":leader()))
  ]] },

  { "observer:next returns the leader while the next of another coroutine is stuck", [[
    local ask, seen, is_first = client._run_txn, {}, true
    function client:_run_txn(...)
      if is_first then
        is_first = false
        while not seen[1] do sleep(0.005) end
      end
      return ask(self, ...)
    end
    local lock = assert(other:election "e":campaign("1", { owner = "leader" }))
    local observer, from = client:election "e":observe(), core.now()
    observer._read_at = from + 20
    for _ = 1, 2 do
      go(function()
        local value = assert(observer:next(20))
        seen[#seen + 1] = value
      end)
    end
    go(function()
      while not seen[1] do sleep(0.005) end
      assert(core.now() - from < 10, "next slept until the next query of etcd")
      assert(lock:proclaim "2")
      while not seen[2] do sleep(0.005) end
      assert(lock:resign())
    end)
    run()
    equal("1 2", table.concat(seen, " "))
  ]] },

  { 'proclaim inside a C function that cannot yield returns "context" and sets no value', [[
    go(function()
      local election, words = other:election "e", { 2, 1 }
      local lock = assert(election:campaign "1")
      table.sort(words, function(a, b)
        fails("context", lock:proclaim "2")
        return a < b
      end)
      equal(lock, election:campaign "1")
      assert(lock:resign() and lock:resign())
    end)
    run()
  ]] },

  { "observer:next that has timed out leaves no wakeup behind", [[
    local observer = client:election "e":observe()
    go(function()
      local lock = assert(other:election "e":campaign "1")
      equal("1", (observer:next(5)))
      for _ = 1, 20 do fails("timeout", observer:next(0.01)) end
      assert(lock:proclaim "2")
      assert(observer._watcher:wait_changed(5))
      local woken = {}
      client._core:woken(woken)
      equal(0, #woken)
      equal("2", (observer:next(5)))
      assert(lock:resign())
    end)
    run()
  ]] },

  { "an observer reports that the leader is unknown while other coroutines run", [[
    local watching, seen = connect { ttl = 2 }, {}
    local observer = watching:election "e":observe()
    spin(true)
    go(function()
      repeat
        local value, _, _, unknown_for = observer:next()
        seen[#seen + 1] = unknown_for and "unknown" or value
        if unknown_for then assert(unknown_for >= 2 and observer:age() >= 2) end
      until #seen == 3
      spin(false)
    end)
    go(function()
      local lock = assert(other:election "e":campaign "1")
      while #seen < 1 do sleep(0.005) end
      function watching:_run_txn(_, deadline) -- etcd is silent
        sleep(deadline - core.now())
        return false, "no answer", "unavailable"
      end
      local before = ticks
      while #seen < 2 do sleep(0.005) end
      assert(ticks > before, "no other coroutine ran")
      watching._run_txn = nil
      while #seen < 3 do sleep(0.005) end
      assert(lock:resign())
    end)
    run()
    equal("1 unknown 1", table.concat(seen, " "))
    watching:close()
  ]] },

  { "a for loop over an observer returns the leaders, or raises if Lua cannot yield there", [[
    local seen = {}
    go(function()
      local ok, failure = attempt(function()
        for value in client:election "e":observe() do
          seen[#seen + 1] = value
          if #seen == 2 then break end
        end
      end)
      equal(coroutines.can_yield_in_pcall, ok)
      if not ok then assert(failure:find("call observer:next()", 1, true), failure) end
    end)
    go(function()
      local lock = assert(other:election "e":campaign "1")
      while coroutines.can_yield_in_pcall and #seen < 1 do sleep(0.005) end
      assert(lock:proclaim "2")
      while coroutines.can_yield_in_pcall and #seen < 2 do sleep(0.005) end
      assert(lock:resign())
    end)
    run()
  ]] },
}
