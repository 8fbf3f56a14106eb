-- Tests that a coroutine that waits in luv does not block the other coroutines. The test
-- programs are those of spec/support/programs/*_stories.lua.

describe("in luv", function()
  local missing = loops.missing "luv"
  if missing then return pending(missing) end

  for _, list in ipairs { stories, loss_stories, thread_stories, kind_stories, election_stories } do
    for _, story in ipairs(list) do
      it(story[1], function() assert.equal(0, loops.play("luv", story[2])) end)
    end
  end
end)
