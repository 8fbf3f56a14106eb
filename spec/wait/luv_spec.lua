-- Waiting in luv: the others go on.

local loops = require "spec.support.programs.loops"
local stories = require "spec.support.programs.loop_stories"

describe("in luv", function()
  local missing = loops.missing "luv"
  if missing then return pending(missing) end

  for _, story in ipairs(stories) do
    it(story[1], loops.test("luv", story[2]))
  end
end)
