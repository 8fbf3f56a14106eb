-- Waits for conditions. Only this file decides how long specs wait.
--
-- Specs name the seconds that a quiet machine needs. M.eventually waits that long times the factor
-- PATIENCE, which spec/run.lua measures at start (4 on a quiet machine, up to 16 on a busy one) or
-- takes from the environment (`make test PATIENCE=8`). Timeouts that a spec passes to etcdlock are
-- not multiplied; clients.answered repeats a call if etcd has not answered within its timeout.

local uv = require "luv"

local M = {}

local PATIENCE = tonumber(os.getenv "PATIENCE") or 4

-- Seconds that a busy machine may be late: added to upper limits in assertions. Less than the 5 s
-- after which a client gives up an etcd that has always refused connections.
M.SLACK = math.min(PATIENCE, 4.5)

-- Returns the TTL, in whole seconds, of a lease that must not expire because the machine is
-- slow: |seconds| on a quiet machine, more on a busy one, at most 300, etcdlock's limit.
function M.ttl(seconds)
  return math.min(300, math.ceil(seconds * math.max(1, PATIENCE / 4)))
end

-- Returns the time in seconds on a clock that only goes forward.
function M.now()
  return uv.hrtime() / 1e9
end

-- Runs luv's loop for |seconds|.
function M.sleep(seconds)
  local deadline, timer = M.now() + seconds, uv.new_timer()
  uv.update_time()
  -- The timer repeats, because a nested sleep, in a callback of this loop, may consume its first
  -- call. Without an active timer uv.run would block.
  timer:start(math.ceil(seconds * 1000), 1, function() end)
  repeat uv.run "once" until M.now() >= deadline
  timer:close()
end

-- Calls |condition| until its first result is a true value, and returns its first two results.
-- Raises after |seconds| (default 5) times PATIENCE; the message names |what| was waited for and
-- the second result of |condition|.
function M.eventually(condition, seconds, what)
  local limit = (seconds or 5) * PATIENCE
  local deadline, pause = M.now() + limit, 0.002
  while true do
    local result, why = condition()
    if result then return result, why end
    if M.now() >= deadline then
      error(("not within %g s: %s%s"):format(limit, what or "condition",
        why and "; " .. tostring(why) or ""), 2)
    end
    M.sleep(pause)
    pause = math.min(1.2 * pause, 0.02)
  end
end

return M
