-- Tests that a coroutine that waits in luv does not block the other coroutines. The test
-- programs are those of spec/support/programs/loop_stories.lua.

describe("in luv", function()
  local missing = loops.missing "luv"
  if missing then return pending(missing) end

  for _, story in ipairs(stories) do it(story[1], loops.test("luv", story[2])) end
end)
