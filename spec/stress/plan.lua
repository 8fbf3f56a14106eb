-- What all parts of the stress program agree on: names, options of the clients, and bounds.

local matrix = require "spec.support.harness.matrix"

local M = {
  PREFIX = "stress/lock/", -- of the clients' lock names
  COUNTERS = "stress/count/", -- one counter key for each name
  TTL = 5, -- seconds, of every client
  DELAY_MAX = 2, -- seconds, the longest lock delay that is asked for
  WAIT_MAX = 14, -- seconds, the longest timeout
  CLIENTS = 4,
  OWNERS = 6, -- per client
  LOCKS = { "a", "b", "c" }, -- names of locks, readers, writers, multi-locks, some elections
  ELECTION = "e", -- a name of elections only
  PERMITS = { p = 2, q = 3 }, -- name = number of permits

  -- Seconds from the end of all faults until the strict checks begin.
  SETTLE = 5,
}

-- Seconds that this machine may be late, in addition to the time for which the program itself could
-- not run.
M.SLACK = matrix.is_sanitized and 8 or 3

-- Seconds for which a waiter may wait while nobody holds the name, no key blocks it except keys of
-- waiters, and there is no fault. Without a sanitizer this is less than the 10 s after which a
-- waiter reads again by itself, so that a lost wake-up is detected.
M.FREE_MAX = 2 + M.SLACK

-- Seconds for which a waiter may wait while nobody holds the name, but keys of ended waits or
-- crashed sessions block it. doc/reference.md promises the next grant after the TTL and the lock
-- delay. One second is added for the grant itself.
M.LEFT_MAX = M.TTL + M.DELAY_MAX + 1 + M.SLACK

-- For so many seconds after an administrator has taken a key, its hold may still count as held. The
-- holder watches its key and so learns that the key is gone. If a fault prevents this, the hold
-- ends at its hold deadline, at most a TTL after the last proof.
M.HEAR_MAX = 1 + M.SLACK
M.HEAR_MAX_IN_FAULTS = M.TTL + M.SLACK

-- For so many seconds after a stopped member goes on, its late decisions are excused: an old leader
-- may revoke leases that live, and a member may answer stale reads (doc/production.md, Versions of
-- etcd).
M.WAKE_MAX = 5 + M.SLACK

-- Returns true if two holds of one name, with the modes |one| and |other|, exclude each other.
function M.conflict(one, other)
  return not (one == "read" and other == "read") and one ~= "permit"
end

return M
