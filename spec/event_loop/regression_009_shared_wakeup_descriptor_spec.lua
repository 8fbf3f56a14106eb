-- Pending locks of one client share a descriptor. A step of one pending lock consumed the wakeup of
-- another one, and a coroutine that polled the other one waited forever.
local loops = require "spec.support.programs.loops"

it("regression 009: step of a pending lock does not consume the wakeup of another",
  loops.test("cqueues", [[
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
    held.a._core:release() -- does not wait, so no other coroutine runs meanwhile
    repeat until client:stats().held == 1
    from = core.now()
    assert(b:step() == false)
  end)
  run()
  assert(b:cancel() and held.b:unlock())
]]))
