-- Repeats tests that fail because etcd did not answer fast enough on a busy machine.

local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local M = {}

local ROUNDS = 3
-- Seconds without an answer after which close gives up and a client is about to repeat a request.
local SILENT = 0.5

-- Runs test(timed, round), at most 3 times. The test runs each step that fails if etcd does not
-- answer for SILENT seconds as timed(step), which returns the results of the step. If the test
-- fails and no step took SILENT + |meant| seconds or longer, the failure is raised; otherwise a
-- failed test is repeated. |clear| closes the clients of a failed round. |meant| (0): seconds for
-- which the test itself makes etcd silent.
function M.undisturbed(test, clear, meant)
  for round = 1, ROUNDS do
    local longest, from = 0, nil
    local function stop(...)
      if from then longest, from = math.max(longest, wait.now() - from), nil end
      return ...
    end
    local ok, failure = pcall(test, function(fn)
      from = wait.now()
      return stop(fn())
    end, round)
    stop()
    if ok then return end
    if longest < SILENT + (meant or 0) or round == ROUNDS then error(failure, 0) end
    print(("repeated, a step took %.1f s: %s"):format(longest, tostring(failure)))
    clear()
    suite.etcd():revoke_all()
  end
end

return M
