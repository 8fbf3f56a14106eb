-- Stories that presuppose that etcd answers at once, which nobody can promise.

local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local M = {}

local ROUNDS = 3
-- What hasn't been answered for so long is asked again soon, and a close gives it up.
local SILENT = 0.5

--- Runs story(timed, round), which does by timed(fn) what may have etcd fall silent, and gets
-- what fn returns. If the story fails, and all of that took less time than etcd needs to be
-- taken for silent, it has failed; else it is told once more, three times at most.
-- |clear| ends the clients of a round that has failed. Seconds for which the story itself
-- lets etcd be silent are |meant| (0).
function M.undisturbed(story, clear, meant)
  for round = 1, ROUNDS do
    local longest, from = 0, nil
    local function stop(...)
      if from then longest, from = math.max(longest, wait.now() - from), nil end
      return ...
    end
    local ok, failure = pcall(story, function(fn)
      from = wait.now()
      return stop(fn())
    end, round)
    stop()
    if ok then return end
    if longest < SILENT + (meant or 0) or round == ROUNDS then error(failure, 0) end
    print(("told again after %.1f s of silence: %s"):format(longest, tostring(failure)))
    clear()
    suite.etcd():revoke_all()
  end
end

return M
