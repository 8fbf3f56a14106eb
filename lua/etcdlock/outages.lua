--- The outages of one client: which of its failed requests are reported, and when it is reported
-- that etcd answers again. During an outage many requests fail, so each cause is reported at most
-- once in RETRY_EVERY seconds (and when the client is closed), with the number of failures since
-- its last report.
local core = require "etcdlock.core"

local Outages = {}
Outages.__index = Outages

-- Seconds.
local RETRY_EVERY = 10

function Outages.new()
  return setmetatable({
    --- True if a later take_events may return events.
    is_active = false,
    -- List of the causes that were reported within the last RETRY_EVERY seconds, or are to be
    -- reported. Fields of a cause:
    --   key          see key_of
    --   message      error text of the last failure
    --   count        number of failures that are not reported yet
    --   failed_at    when the first failure of the last add_failures happened (core.now)
    --   reported_at  when the cause was last reported (core.now)
    _causes = {},
    -- True if a failure was reported, and not yet that etcd answers again.
    _is_reported = false,
    -- The end of the last outage, { at =, outage = }, if it is not reported yet and no request has
    -- failed since.
    _recovery = nil,
  }, Outages)
end

--- Returns what failures of one cause have in common: the error text without its durations.
function Outages.key_of(message)
  return (message:gsub("[%d.]+ s%f[%A]", ""))
end

local function find_cause(self, key)
  for _, cause in ipairs(self._causes) do
    if cause.key == key then
      return cause
    end
  end
  local cause = { key = key, count = 0, reported_at = -math.huge }
  table.insert(self._causes, cause)
  return cause
end

--- Records `count` failed requests with the error text `message`, the first of them `ago` seconds
-- ago.
function Outages:add_failures(message, count, ago)
  local cause = find_cause(self, Outages.key_of(message))
  cause.message, cause.count = message, cause.count + count
  cause.failed_at = core.now() - ago
  self._recovery, self.is_active = nil, true
end

--- Records that etcd answered again `ago` seconds ago, after requests had failed for `outage`
-- seconds.
function Outages:add_recovery(outage, ago)
  self._recovery, self.is_active = { at = core.now() - ago, outage = outage }, true
end

-- Returns a list of events that report the failures whose report is due, and the number of the
-- other failures.
local function take_failures(self, is_final)
  local now, events, kept, left = core.now(), {}, {}, 0
  for _, cause in ipairs(self._causes) do
    local is_due = is_final or now - cause.reported_at >= RETRY_EVERY
    if is_due and cause.count > 0 then
      events[#events + 1] = {
        event = "retry", message = cause.message, count = cause.count, ago = now - cause.failed_at,
      }
      cause.count, cause.reported_at, is_due = 0, now, false
    end
    kept[#kept + 1] = not is_due and cause or nil
    left = left + cause.count
  end
  self._causes = kept
  return events, left
end

--- Returns the list of the events to report now. If `is_final` is true, no failure is kept for a
-- later call.
function Outages:take_events(is_final)
  local events, left = take_failures(self, is_final)
  local recovery = self._recovery
  self._is_reported = self._is_reported or events[1] ~= nil
  -- A cause that an earlier outage has reported less than RETRY_EVERY seconds ago is not due yet.
  -- If this outage has only such causes, its end is reported only when one of them is due.
  if recovery and self._is_reported then
    events[#events + 1] = {
      event = "recovered", outage = recovery.outage, count = left, ago = core.now() - recovery.at,
    }
    for _, cause in ipairs(self._causes) do
      cause.count = 0
    end
    self._recovery, self._is_reported = nil, false
  elseif left == 0 then
    self._recovery = nil -- the core had no room to record the failures
  end
  self.is_active = self._recovery ~= nil or self._causes[1] ~= nil
  return events
end

return Outages
