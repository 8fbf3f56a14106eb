-- Programs that test the lock modes in an event loop; each runs in cqueues, luv and copas. See
-- loops.lua beside this file for the functions that they use.

return {
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
