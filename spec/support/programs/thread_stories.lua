-- Programs that test when an event loop wakes the I/O thread of a client; each runs in cqueues, luv
-- and copas. See loops.lua beside this file for the functions that they use.

return {
  { "100 local handoffs wake the I/O thread at most 60 times", [[
    local wakings = require "spec.support.programs.wakings"
    -- The budget covers all 100 handoffs, so none goes back to the queue in etcd.
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
}
