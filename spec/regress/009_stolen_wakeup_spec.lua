-- A step of one pending lock took the news of another off the descriptor that they
-- share, and whoever polled that one waited for ever.
local loops = require "spec.support.programs.loops"

it("a pending lock that is polled hears of its end, whoever steps another", loops.test("cqueues", [[
  local cqueues = require "cqueues"
  local held = { a = assert(other:lock "a"), b = assert(other:lock "b") }
  local b = assert(client:lock_async "b")
  local from
  go(function()
    local a = assert(client:lock_async "a")
    while a:step() == false do cqueues.poll(a) end
    assert(a:step():unlock())
    took(0, from)
  end)
  go(function()
    sleep(0.05)
    held.a._core:release() -- without waiting: nobody else shall have his turn
    repeat until client:stats().held == 1
    from = core.now()
    assert(b:step() == false)
  end)
  run()
  assert(b:cancel() and held.b:unlock())
]]))
