-- Programs that test how an event loop reports the loss of a lock; each runs in cqueues, luv and
-- copas. See loops.lua beside this file for the functions that they use.

return {
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
}
