--- etcdlock run --once-per: one successful run in each period, on all machines together. The start
-- of the last successful run is recorded in etcd, in a key that is read and written under the lock.
local core = require "etcdlock.core"
local json = require "etcdlock.json"
local quote = require("etcdlock.text").quote

local M = {}

-- The end of the record's key. The key stands beside the lock's queue and not below it: a key below
-- the name would keep etcdctl and Go's client waiting.
local SUFFIX = ".last-run"

local HOUR = 3600

local function get_key(lock)
  return lock:key():match "^(.*)/%x+$" .. SUFFIX
end

-- ---- periods ----

-- Returns the seconds by which local time is ahead of UTC at `time` (Unix seconds).
local function get_utc_offset(time)
  local sign, hours, minutes = os.date("%z", time):match "^([+-])(%d%d)(%d%d)$"
  local offset = sign and hours * HOUR + minutes * 60 or 0
  return sign == "-" and -offset or offset
end

-- Returns the number of the period of `length` seconds that contains `time` (Unix seconds). Periods
-- of more than an hour follow local time, as cron does: the days on which summer time begins and
-- ends have 23 and 25 hours. Shorter periods follow UTC, because local time shows one hour twice
-- when summer time ends, and these are two hours.
local function get_period(time, length)
  return math.floor((time + (length > HOUR and get_utc_offset(time) or 0)) / length)
end

-- ---- the record ----

-- Unix seconds up to which os.date works everywhere; the largest process ID of Linux; bytes of a
-- host name.
local TIME_MAX, PID_MAX, HOST_MAX = 2 ^ 40, 2 ^ 22, 255

local function is_whole(value, max)
  return type(value) == "number" and value >= 0 and value <= max and value % 1 == 0
end

-- Returns the record: { started (Unix seconds), host, pid }; nil if `text` is none.
local function decode(text)
  local record = json.decode(text)
  if type(record) == "table" and type(record.host) == "string" and #record.host <= HOST_MAX
    and is_whole(record.started, TIME_MAX) and is_whole(record.pid, PID_MAX) then
    return record
  end
end

local function describe(record)
  return ("pid %.0f on %s at %s"):format(record.pid, record.host,
    os.date("%Y-%m-%d %H:%M:%S", record.started))
end

-- Returns nil, message, code for a request that has failed. Unless the lock was lost, the message
-- names the record's key.
local function fail(lock, message, code)
  if code ~= "lost" then
    message = ("lock %s: the record of --once-per, key %s: %s%s"):format(quote(lock:name()),
      quote(get_key(lock)), message,
      code == "denied" and "; grant the user the right to read and write this key" or "")
  end
  return nil, message, code
end

--- Checks that a run that has started at `started` (Unix seconds) is due: that no successful run of
-- the same period of `length` seconds, or of a later one, is recorded.
-- @return true; or nil, message, code: "locked" if such a run is recorded
function M.check(lock, started, length)
  local key = get_key(lock)
  local text, message, code = lock:get(key)
  if text == nil then
    return fail(lock, message, code)
  elseif text == false then
    return true
  end
  local record = decode(text)
  if not record then
    return nil, ("lock %s: the key %s is not a record of --once-per; choose another NAME, or delete"
      .. " the key"):format(quote(lock:name()), quote(key))
  end
  local recorded = get_period(record.started, length)
  if recorded < get_period(started, length) then
    return true
  elseif recorded <= get_period(os.time(), length) + 1 then -- the wait may have taken periods
    return nil, ("lock %s: nothing to do in this period (--once-per): run by %s")
      :format(quote(lock:name()), describe(record)), "locked"
  end
  return nil, ("lock %s: run by %s, more than one period ahead of this machine's clock; correct the"
    .. " clocks, or delete the key %s"):format(quote(lock:name()), describe(record), quote(key))
end

--- Records the run that has started at `started` (Unix seconds), if the lock is held.
-- @return true; or nil, message, code
function M.record(lock, started)
  local text = json.encode { started = started, host = core.host(), pid = core.pid() }
  local is_written, message, code = lock:put(get_key(lock), text)
  if not is_written then
    return fail(lock, message, code)
  end
  return true
end

return M
