-- Records when faults happened, and decides what they excuse. Other files report faults to this
-- one. When a check finds something wrong, it asks this file whether a fault may be the cause.

local history = require "spec.stress.history"
local loop = require "spec.stress.loop"
local plan = require "spec.stress.plan"

local M = {}

local NEVER = -math.huge

local last_fault, last_wake, last_leader_wake = NEVER, NEVER, NEVER
local active = 0 -- number of faults that have begun and not ended
-- mark = when an administrator took what the mark names (see M.take)
local taken = {}

-- Records that a fault begins now. M.finish records its end.
function M.begin(text, ...)
  active = active + 1
  last_fault = loop.now()
  history.note("*", text, ...)
end

-- Records that a fault has ended.
function M.finish(text, ...)
  active = active - 1
  last_fault = loop.now()
  history.note("*", text, ...)
end

-- Records that etcd itself was slow, gave no answer or has elected a leader.
function M.disturbed(text, ...)
  last_fault = loop.now()
  history.note("*", text, ...)
end

-- Records that a stopped member goes on. |has_led|: it may have been the leader.
function M.woken(has_led)
  last_wake = loop.now()
  if has_led then last_leader_wake = loop.now() end
end

-- Returns the seconds since the last fault; 0 while one lasts.
function M.calm()
  return active > 0 and 0 or loop.now() - last_fault
end

-- Records that an administrator takes what |marks| name: "token TOKEN", "lease LEASE", "client
-- CLIENT", or CLIENT .. "/" .. NAME.
function M.take(marks)
  for _, mark in ipairs(marks) do taken[mark] = loop.now() end
end

local function taken_since(marks)
  local since = math.huge
  for _, mark in ipairs(marks) do
    since = math.min(since, loop.now() - (taken[mark] or NEVER))
  end
  return since
end

-- Returns the seconds since a stopped member that may have been the leader last went on.
local function awake()
  return loop.now() - last_leader_wake
end

-- Returns true if etcd may have answered with old data, because a stopped member went on a moment
-- ago (doc/production.md, Versions of etcd).
function M.may_be_stale()
  return loop.now() - last_wake < plan.WAKE_MAX
end

-- Returns the marks by which M.take knows |hold|.
local function marks_of(hold)
  return { "token " .. hold.token, "lease " .. hold.lease }
end

-- Returns why |hold|, which its client still counts as held, may have lost its key in etcd. Returns
-- nil if there is no reason.
function M.overlap_excuse(hold)
  local bound = M.calm() > plan.TTL and plan.HEAR_MAX or plan.HEAR_MAX_IN_FAULTS
  if taken_since(marks_of(hold)) < bound then return "taken" end
  if awake() < plan.WAKE_MAX then return "woken" end
end

-- Returns why |client| may have lost its hold of |name|, or its wait for |name|. Returns nil or
-- false if there is no reason. |reason|: what lock:wait_lost has returned; nil: unknown. |hold| is
-- nil for a wait.
function M.loss_cause(client, name, reason, hold)
  local marks = { "client " .. client.id, client.id .. "/" .. name }
  for _, mark in ipairs(hold and marks_of(hold) or {}) do marks[#marks + 1] = mark end
  local was_taken = taken_since(marks) < 3 * plan.TTL + plan.SLACK
  local was_woken = awake() < 2 * plan.TTL + plan.SLACK
  local was_cut = M.calm() < 2 * plan.TTL + plan.SLACK
  if reason == "deleted" or reason == "revoked" then
    return was_taken and "taken" or was_woken and "woken"
      or was_cut and "expired in etcd" or nil
  elseif reason == "expired" or reason == nil then
    return was_taken and "taken" or (was_cut or was_woken) and "faults" or nil
  elseif reason == "max_hold" then
    return hold and hold.max_hold and "max_hold"
  end
end

return M
