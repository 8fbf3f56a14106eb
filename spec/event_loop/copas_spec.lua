-- Tests that a coroutine that waits in copas does not block the other coroutines. The test
-- programs are those of spec/support/programs/*_stories.lua.

local election_stories = require "spec.support.programs.election_stories"
local kind_stories = require "spec.support.programs.kind_stories"
local loops = require "spec.support.programs.loops"
local loss_stories = require "spec.support.programs.loss_stories"
local stories = require "spec.support.programs.loop_stories"
local thread_stories = require "spec.support.programs.thread_stories"

describe("in copas", function()
  local missing = loops.missing "copas"
  if missing then return pending(missing) end

  for _, list in ipairs { stories, loss_stories, thread_stories, kind_stories, election_stories } do
    for _, story in ipairs(list) do
      it(story[1], function() assert.equal(0, loops.play("copas", story[2])) end)
    end
  end
end)
