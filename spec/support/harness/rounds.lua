-- Stories that presuppose that etcd was never silent for long, which nobody can promise.

local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local M = {}

local ROUNDS = 3
-- What hasn't been answered for so long is asked again soon, and a close gives it up.
local SILENT = 0.5

-- Runs story(round) until it passes, three times at most. Where it fails within a time in which
-- etcd can't have been silent for long, that is told at once. |clear| ends the clients of a
-- round that has failed.
function M.undisturbed(story, clear)
  for round = 1, ROUNDS do
    local from = wait.now()
    local ok, failure = pcall(story, round)
    if ok then return end
    if wait.now() - from < SILENT or round == ROUNDS then error(failure, 0) end
    clear()
    -- One may end by itself meanwhile.
    for _, lease in ipairs(suite.etcd():leases()) do suite.etcd():ctl("lease", "revoke", lease) end
  end
end

return M
