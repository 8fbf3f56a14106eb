-- Tests that a coroutine that waits in copas does not block the other coroutines. The test
-- programs are those of spec/support/programs/loop_stories.lua.

describe("in copas", function()
  local missing = loops.missing "copas"
  if missing then return pending(missing) end

  for _, story in ipairs(stories) do it(story[1], loops.test("copas", story[2])) end
end)
