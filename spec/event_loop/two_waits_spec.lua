-- Tests two waits of one owner.
-- Needs: one plain member, cqueues.

-- Regression 094. Two coroutines with the same owner waited for one lock. The second coroutine got
-- it only after the first had released it. If the first one waited for the second before that, both
-- hung.

local OWNER = {}
local held

before_each(function() held = assert(connect { elsewhere = true }:lock "a") end)

-- Runs |second| in a coroutine while another coroutine waits for the lock "a" as OWNER. Afterwards
-- the waiting coroutine gets the lock.
local function beside_a_wait(second)
  local loop = cqueues.new()
  local first
  loop:wrap(function() first = assert(client:lock("a", { owner = OWNER })) end)
  loop:wrap(function()
    while client:stats().waiting == 0 do cqueues.sleep(0.01) end
    second()
    assert.is_true(held:unlock())
  end)
  assert(loop:loop())
  assert.is_true(first:unlock())
end

it('an owner that waits already gets "deadlock" for a second wait', function()
  beside_a_wait(function()
    local text = assert_fails("deadlock", client:lock("a", { owner = OWNER, timeout = 5 }))
    assert.matches('lock "' .. prefix
      .. 'a": its owner waits for it already, in another coroutine', text, 1, true)
  end)
end)

it("an owner may wait for two names, and two owners for one", function()
  local others = {}
  beside_a_wait(function()
    others[1] = assert(client:lock("b", { owner = OWNER }))
    others[2] = assert(client:lock_async("a", { owner = {} }))
  end)
  assert.is_true(others[1]:unlock())
  assert.is_true(clients.granted(others[2]):unlock())
end)

it("an owner may wait again after its wait has ended", function()
  for _ = 1, 2 do
    assert_fails("timeout",
      clients.answered(client.lock, client, "a", { owner = OWNER, timeout = 0.1 }))
  end
  assert.is_true(held:unlock())
  assert.is_true(assert(client:lock("a", { owner = OWNER, timeout = 5 })):unlock())
end)
