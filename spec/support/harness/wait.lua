-- Waiting for conditions, and how patient specs are: the only place that decides it.
--
-- A spec waits for a condition with a deadline. The deadlines that specs name are those of a quiet
-- machine; each is multiplied by the factor PATIENCE. spec/run.lua measures the factor at start, or
-- takes it from the environment (`make test PATIENCE=8`).

local uv = require "luv"

local M = {}

local PATIENCE = tonumber(os.getenv "PATIENCE") or 4

-- Seconds by which a busy machine may be later than promised; `make figures` measures what is
-- promised for a quiet one. Less than the 5 s after which a client gives up an etcd that has never
-- answered.
M.SLACK = math.min(PATIENCE, 4.5)

-- Returns |seconds|, the TTL of a lease that expires on a quiet machine only if a test wants it to,
-- as a busy machine needs it: a whole number, at most etcdlock's limit.
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
  -- It repeats, because a sleep in a callback of this loop may run its first call.
  timer:start(math.ceil(seconds * 1000), 1, function() end)
  repeat uv.run "once" until M.now() >= deadline
  timer:close()
end

-- Calls |condition| until it returns something true, and returns that. Raises if a quiet machine
-- would have reached it within |seconds| (5); the message names |what| was waited for and the
-- second result of |condition|.
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
