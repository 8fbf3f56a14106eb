--- etcdlock run --once-per: one successful run in each period, on all machines together. A key in
-- etcd, the record, contains the start of the last successful run. etcdlock reads and writes the
-- record while it holds the lock.
local core = require "etcdlock.core"
local json = require "etcdlock.json"
local quote = require("etcdlock.text").quote

local M = {}

-- The record's key is the prefix, the lock's name with "%2F" for each slash, and this suffix. So it
-- is not below the name of the lock, and not below another name with the same prefix: etcdctl and
-- Go's client take every key below a name for a key of its queue, and would wait for it.
local SUFFIX = ".last-run"

local HOUR = 3600

local ESCAPES = { ["%"] = "%25", ["/"] = "%2F" }

local function get_key(lock)
  local prefix = lock._client._prefix
  local name = lock:key():match("^(.*)/%x+$"):sub(#prefix + 1)
  return prefix .. name:gsub("[%%/]", ESCAPES) .. SUFFIX
end

-- ---- periods ----

-- Returns the seconds by which local time is ahead of UTC at `time` (Unix seconds).
local function get_utc_offset(time)
  local sign, hours, minutes = os.date("%z", time):match "^([+-])(%d%d)(%d%d)$"
  local offset = sign and hours * HOUR + minutes * 60 or 0
  return sign == "-" and -offset or offset
end

-- Returns the number of the period of `length` seconds that contains `time` (Unix seconds).
-- Periods of more than one hour follow local time, as cron does. So a period of one day has 23
-- hours when summer time begins, and 25 hours when it ends.
-- Periods of exactly one hour and shorter periods follow UTC. When summer time ends, local time
-- shows the same hour twice. In local time, the second of these two hours would therefore have the
-- number of the first, and the command would not run in it.
local function get_period(time, length)
  return math.floor((time + (length > HOUR and get_utc_offset(time) or 0)) / length)
end

--- Returns the seconds from `time` (Unix seconds) to the end of its period of `length` seconds.
function M.time_left(time, length)
  local offset = length > HOUR and get_utc_offset(time) or 0
  return (get_period(time, length) + 1) * length - offset - time
end

-- ---- the record ----

-- Limits of the fields of a valid record. TIME_MAX: Unix seconds up to which os.date works on all
-- systems. PID_MAX: the largest process ID of Linux. HOST_MAX: bytes of a host name.
local TIME_MAX, PID_MAX, HOST_MAX = 2 ^ 40, 2 ^ 22, 255

local function is_whole(value, max)
  return type(value) == "number" and value >= 0 and value <= max and value % 1 == 0
end

-- Returns the record that the JSON text `text` contains: { started (Unix seconds), host, pid }.
-- Returns nil if `text` is not a valid record.
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

-- Returns nil, message, code for a request that failed with `message` and `code`. The message names
-- the record's key, unless the request failed because the lock was lost.
local function fail(lock, message, code)
  if code ~= "lost" then
    message = ("lock %s: the record of --once-per, key %s: %s%s"):format(quote(lock:name()),
      quote(get_key(lock)), message,
      code == "denied" and "; grant the user the right to read and write this key" or "")
  end
  return nil, message, code
end

--- Checks that a run that started at `started` (Unix seconds) is due. The run is due unless the
-- record shows a successful run in the same period of `length` seconds, or in a later period.
-- @return true; or nil, message, code. The code is "locked" if the record shows such a run, and nil
--   if the record is invalid or more than one period in the future
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
  elseif recorded <= get_period(os.time(), length) + 1 then -- now: the wait may have been long
    return nil, ("lock %s: nothing to do in this period (--once-per): run by %s")
      :format(quote(lock:name()), describe(record)), "locked"
  end
  return nil, ("lock %s: run by %s, more than one period ahead of this machine's clock; correct the"
    .. " clocks, or delete the key %s"):format(quote(lock:name()), describe(record), quote(key))
end

-- Returns the text of the record of this process.
local function encode(started)
  return json.encode { started = started, host = core.host(), pid = core.pid() }
end

--- Records the successful run that started at `started` (Unix seconds). Fails if the lock is not
-- held any more.
-- @return true; or nil, message, code
function M.record(lock, started)
  local is_written, message, code = lock:put(get_key(lock), encode(started))
  if not is_written then
    return fail(lock, message, code)
  end
  return true
end

--- Reads whether the run that started at `started` is recorded, without the lock: it may be lost.
-- @return true if it is recorded; false if that is not known
function M.is_recorded(lock, started)
  return lock._client:get(get_key(lock)) == encode(started)
end

return M
