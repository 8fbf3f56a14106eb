-- Waiting for a condition instead of sleeping and hoping.

local uv = require "luv"

local M = {}

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

-- Calls |condition| until it returns something true, and returns that. Fails
-- after |seconds| (5), saying |what| was awaited and the last explanation,
-- the second result of |condition|.
function M.eventually(condition, seconds, what)
  local deadline = M.now() + (seconds or 5)
  while true do
    local result, why = condition()
    if result then return result, why end
    if M.now() >= deadline then
      error(("not within %g s: %s%s"):format(seconds or 5, what or "condition",
        why and "; " .. tostring(why) or ""), 2)
    end
    M.sleep(0.005)
  end
end

return M
