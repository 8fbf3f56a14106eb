-- A lock was granted to a coroutine that no longer ran, and stayed held while other clients waited.
-- The object that watches for the end of a wait kept the coroutine from being collected.
local loops = require "spec.support.programs.loops"

it("regression 008: a wait in a dropped cqueues controller ends at garbage collection",
  loops.test("cqueues", [[
  local cqueues = require "cqueues"
  local held = assert(other:lock "a")
  local job = cqueues.new()
  job:wrap(function() client:with_lock("a", error) end)
  job:loop(0.1)
  job = nil
  held:unlock()
  go(function()
    collectgarbage()
    collectgarbage()
    local from = core.now()
    assert(client:lock("a", { timeout = 5 })):unlock()
    took(0, from)
  end)
  run()
]]))

it("regression 008: coroutine.close removes the entry of a waiting coroutine from the queue",
  _VERSION ~= "Lua 5.4" and function() pending "only Lua 5.4 can close a coroutine" end
    or loops.test("luv", [[
      local held, waiting = assert(other:lock "a"), nil
      go(function()
        waiting = coroutine.running()
        client:with_lock("a", error)
      end)
      go(function()
        repeat sleep(0.01) until #other:queue "a" == 2
        assert(coroutine.close(waiting))
        live = live - 1 -- it doesn't end by itself
        repeat sleep(0.01) until #other:queue "a" == 1
        equal(0, client:stats().waiting)
      end)
      run()
      assert(held:unlock())
    ]]))

it("regression 008: coroutine.close ends the wait of a coroutine that yields in an on_lost handler",
  _VERSION ~= "Lua 5.4" and function() pending "only Lua 5.4 can close a coroutine" end
    or loops.test("luv", [[
      local held, waiting, told = assert(other:lock "a"), nil, false
      go(function()
        waiting = coroutine.running()
        local mine = assert(client:lock("b", { max_hold = 0.1 }))
        mine:on_lost(function()
          told = true
          coroutine.yield()
        end)
        client:lock "a"
      end)
      go(function()
        repeat sleep(0.01) until told
        assert(coroutine.close(waiting))
        live = live - 1
        repeat sleep(0.01) until #other:queue "a" == 1
      end)
      run()
      assert(held:unlock())
    ]]))
