-- When the thread of a client is woken, in every event loop; see loops.lua beside this for
-- the words that these programs use.

return {
  { "who asks for what is here doesn't wake the client's thread", [[
    local wakings = require "spec.support.programs.wakings"
    -- All hundred in one chain, however slow they are: none goes back to etcd's line.
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

  { "who waits for less long than the client's thread sleeps wakes it", [[
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
