-- Waiting for a condition instead of sleeping and hoping.

local uv = require "luv"

local M = {}

-- How much later than promised something may be where the machine is busy with
-- other things. What is promised for a quiet one, `make figures` measures. Less than the
-- 5 s after which an etcd that was never heard is given up.
M.SLACK = 4 -- seconds

-- What is awaited is found as soon as it is there, so deadlines are only for what
-- never comes: they are as many times longer than a quiet machine needs.
local PATIENCE = 4

-- Seconds on a clock that only goes forward.
function M.now()
  return uv.hrtime() / 1e9
end

-- Lets luv's events happen for |seconds|.
function M.sleep(seconds)
  local deadline = M.now() + seconds
  repeat
    uv.run("nowait")
    uv.sleep(1)
  until M.now() >= deadline
end

-- Calls |condition| until it returns something true, and returns that. Fails if a
-- quiet machine would have had it within |seconds| (5), saying |what| was awaited
-- and the last explanation, the second result of |condition|.
function M.eventually(condition, seconds, what)
  local limit = (seconds or 5) * PATIENCE
  local deadline = M.now() + limit
  while true do
    local result, why = condition()
    if result then return result, why end
    if M.now() >= deadline then
      error(("not within %g s: %s%s"):format(limit, what or "condition",
        why and "; " .. tostring(why) or ""), 2)
    end
    M.sleep(0.005)
  end
end

return M
