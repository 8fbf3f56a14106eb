-- When faults happened, and what they excuse. Other parts report faults here, and ask whether
-- something that the checks found has such a cause.

local history = require "spec.stress.history"
local loop = require "spec.stress.loop"
local plan = require "spec.stress.plan"

local M = {}

local NEVER = -math.huge

local last_fault, last_wake, last_leader_wake = NEVER, NEVER, NEVER
local active = 0 -- faults that have begun and not ended
-- When an administrator took something: by token, by lease, and by client and name.
local taken = {}

-- A fault that takes |seconds| begins now, or has just happened (0).
function M.begin(text, ...)
  active = active + 1
  last_fault = loop.now()
  history.note("*", text, ...)
end

-- The fault is over.
function M.finish(text, ...)
  active = active - 1
  last_fault = loop.now()
  history.note("*", text, ...)
end

-- etcd itself was slow, or has elected a leader.
function M.disturbed(text, ...)
  last_fault = loop.now()
  history.note("*", text, ...)
end

-- A stopped member goes on; |has_led|: it was the leader.
function M.woken(has_led)
  last_wake = loop.now()
  if has_led then last_leader_wake = loop.now() end
end

-- Returns the seconds since the last fault; 0 while one lasts.
function M.calm()
  return active > 0 and 0 or loop.now() - last_fault
end

-- An administrator takes what |marks| name: tokens, leases, and client .. "/" .. name.
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

-- Returns the seconds since the last leader that was stopped went on.
local function awake()
  return loop.now() - last_leader_wake
end

-- Returns true if etcd may have answered with old data (doc/production.md, Versions).
function M.may_be_stale()
  return loop.now() - last_wake < plan.WAKE_MAX
end

-- Returns the marks by which M.take knows |hold|.
local function marks_of(hold)
  return { "token " .. hold.token, "lease " .. hold.lease }
end

-- Returns why |hold|, which is held, may no longer have its key; nil: there is no reason.
function M.overlap_excuse(hold)
  local bound = M.calm() > plan.TTL and plan.HEAR_MAX or plan.HEAR_MAX_IN_FAULTS
  if taken_since(marks_of(hold)) < bound then return "taken" end
  if awake() < plan.WAKE_MAX then return "woken" end
end

-- Returns why |client| may have lost its hold or its wait of |name| for |reason|; nil: there is no
-- reason. |reason| as of lock:wait_lost, or nil if it is unknown.
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
