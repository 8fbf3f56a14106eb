-- How the loss of a lock is heard of in every event loop; see loops.lua for the words that
-- these programs use.

return {
  { "a loss wakes those who wait for it, and is told", [[
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

  { "who waits for the loss of a lock that is let go of is told, whoever has it then", [[
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

  { "nothing is read for a lock that was let go of meanwhile, whoever has it then", [[
    local first, second = assert(client:lock("a", { linger = 60 })), nil
    local ask = client._ask
    local function await_second(...)
      while not second do sleep(0.005) end
      return ...
    end
    function client:_ask(...) return await_second(ask(self, ...)) end
    go(function() fails("not_held", first:get "x") end)
    go(function() fails("not_held", first:txn { { "get", "x" } }) end)
    go(function() fails("not_held", first:check()) end)
    go(function()
      sleep(0.02) -- in which the others have asked
      equal(true, first:unlock())
      second = assert(client:lock("a", { linger = 60 }))
      equal(first:token(), second:token())
      equal(false, (second:get "x"))
    end)
    run()
  ]] },

  { "an error in an on_lost handler gives up the wait that it came in", [[
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
