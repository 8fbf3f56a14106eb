--- Runs of a job once in each period, on all machines together. A key in etcd, the record,
-- describes the last successful run of the job. Only a holder of the lock of the job writes it.
-- `client:once` and `etcdlock run --once-per` both use this module, so they share records and
-- rules.
-- @submodule client
local Lock = require "etcdlock.lock"
local acquire = require "etcdlock.acquire"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local json = require "etcdlock.json"
local label = require "etcdlock.label"
local names = require "etcdlock.names"
local quote = require("etcdlock.text").quote
local snapshots = require "etcdlock.snapshot"

local M = {}

local WHERE = "client:once"
local HOUR = 3600

-- Seconds between two attempts to write the record.
local RETRY_AFTER = 0.5

-- ---- periods ----

-- The period of a job that runs only once: a word for callers. In this module such a period is
-- math.huge seconds long.
local EVER = "ever"

-- Reads the argument `period` of client:once. Returns its length in seconds; or nil, message, code.
-- Raises for a wrong type.
local function read_period(period)
  local wanted = ("a finite number of seconds, 1 or more, or %q"):format(EVER)
  if period == EVER then
    return math.huge
  elseif type(period) ~= "number" then
    check.raise_type(WHERE, "period", period, wanted)
  elseif not (period >= 1 and period < math.huge) then
    return check.invalid(WHERE, "period", period, wanted)
  end
  return period
end

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
-- number of the first, and the job would not run in it.
local function get_period(time, length)
  return math.floor((time + (length > HOUR and get_utc_offset(time) or 0)) / length)
end

-- Returns the seconds from `time` (Unix seconds) to the end of its period of `length` seconds. If
-- the clocks are set forward or back in between, the result is wrong by that change: it only limits
-- a wait.
local function get_time_left(time, length)
  local offset = length > HOUR and get_utc_offset(time) or 0
  return math.max((get_period(time, length) + 1) * length - offset - time, 0) -- 0: rounding
end

-- ---- the record ----

-- The record's key is the client's prefix, the lock's name with "%2F" for each slash and "%25" for
-- each "%", and this suffix. So the key is not below the name of the lock, nor below another name
-- with the same prefix: etcdctl and Go's client take every key below a name for a key of its queue,
-- and would wait for it.
local SUFFIX = ".last-run"

local ESCAPES = { ["%"] = "%25", ["/"] = "%2F" }
local CHARACTERS = { ["%25"] = "%", ["%2F"] = "/" }

local function escape_name(name)
  return (name:gsub("[%%/]", ESCAPES))
end

-- Returns the name of the lock whose record has the key `prefix` .. `rest`, where `prefix` is the
-- client's prefix. Returns nil if it is not the key of a record. Up to its last slash, `rest`
-- belongs to the longer prefix of another client.
local function find_name(prefix, rest)
  local head, escaped = rest:match "^(.-)([^/]*)$"
  escaped = escaped:sub(-#SUFFIX) == SUFFIX and escaped:sub(1, -#SUFFIX - 1) or ""
  local name = escaped:gsub("%%2[5F]", CHARACTERS)
  local is_name = name ~= "" and names.is_full_name(prefix .. head .. name)
  return is_name and escape_name(name) == escaped and head .. name or nil
end

-- Limits of the fields of a valid record. TIME_MAX: the largest time (Unix seconds), which os.date
-- can still format, and the largest duration of a run (seconds). PID_MAX: the largest process ID of
-- Linux. HOST_MAX: bytes of a host name.
local TIME_MAX, PID_MAX, HOST_MAX = 2 ^ 40, 2 ^ 22, 255

local function is_number(value, max)
  return type(value) == "number" and value >= 0 and value <= max
end

-- Returns `value` as an integer; nil if it is not a whole number from 0 to `max`.
local function to_whole(value, max)
  -- math.floor, because from Lua 5.3 on dkjson returns a float for a text such as 5.0.
  return is_number(value, max) and value % 1 == 0 and math.floor(value) or nil
end

-- Returns the run that `text`, the value of the record of `name`, describes: see the table `run`.
-- Returns nil if `text` is not a valid record.
local function decode(name, text)
  local record = json.decode(text)
  if type(record) ~= "table" then
    return nil
  end
  local started, pid = to_whole(record.started, TIME_MAX), to_whole(record.pid, PID_MAX)
  local is_host = type(record.host) == "string" and #record.host <= HOST_MAX
  if not (started and pid and is_host) then
    return nil
  end
  return {
    name = name, started = started, host = record.host, pid = pid,
    ended = to_whole(record.ended, TIME_MAX) or started, -- etcdlock 0.2.0 has not recorded it
    seconds = is_number(record.seconds, TIME_MAX) and record.seconds or nil,
  }
end

-- ---- one run ----

-- A Run is one call of client:once, or one `etcdlock run --once-per`, from its start on. Fields:
--   _client   the client
--   _name, _full_name  the name of the lock, without and with the client's prefix
--   _key      the key of the record
--   _started  when the run was started, before the wait for the lock (Unix seconds)
--   _length   length of the period in seconds; math.huge: ever
--   _due_at   when Run:check has found that the run is due (core.now); nil before
local Run = {}
Run.__index = Run

-- The functions below are for `client:once` and for command/run.lua.

-- Returns a new Run of the job `name` in the present period of `length` seconds (math.huge: ever).
function M.start(client, name, length)
  return setmetatable({
    _client = client, _name = name, _full_name = client._prefix .. name,
    _key = client._prefix .. escape_name(name) .. SUFFIX, _started = os.time(), _length = length,
  }, Run)
end

-- Takes the lock with the options `opts` of client:lock, for a run. The wait ends with the period,
-- unless the call or the client has a timeout: so an outage within the period does not skip the
-- run, and no outage moves it into the next period. `call` is the Call of acquire.lua that takes
-- the lock for a function, or nil. Returns the lock; or nil, message, code.
function Run:take(opts, call)
  local asked = Lock.new(self._client, "lock", self._name)
  asked._default_timeout = get_time_left(self._started, self._length)
  if call then
    return call:wait(WHERE, asked, opts)
  end
  return acquire.wait(WHERE, asked, opts)
end

-- Returns the message for the caller if a request for the record failed with `message`, which names
-- the lock and the key, and with `code`.
local function explain(message, code)
  return message .. (code == "denied" and "; grant the user the right to read and write this key,"
    .. " the record of the last run" or "")
end

-- Tells whether the run is due, under its lock. It is due unless the record shows a successful run
-- in the same period, or in a later period.
-- Returns true; or false, message and the recorded run; or nil, message, code. The code is
-- "invalid" if the record is invalid, or more than one period in the future.
function Run:check(lock)
  local name, length = quote(self._full_name), self._length
  local text, message, code = lock:get(self._key)
  if text == nil then
    return nil, explain(message, code), code
  end
  local last = text and decode(self._name, text)
  if text and not last then
    return nil, ("lock %s: the key %s is not the record of a run; choose another name, or delete"
      .. " the key"):format(name, quote(self._key)), "invalid"
  elseif not text or get_period(last.started, length) < get_period(self._started, length) then
    self._due_at = core.now()
    return true
  end
  local by = ("run by %s at %s"):format(label.describe_process(last),
    os.date("%Y-%m-%d %H:%M:%S", last.started))
  -- Compared with the current time, because the wait may have been long.
  if get_period(last.started, length) <= get_period(os.time(), length) + 1 then
    local when = length == math.huge and "" or " in this period"
    return false, ("lock %s: nothing to do%s: %s"):format(name, when, by), last
  end
  return nil, ("lock %s: %s, more than one period ahead of this machine's clock; correct the"
    .. " clocks, or delete the key %s"):format(name, by, quote(self._key)), "invalid"
end

-- Writes `text` as the record. If etcd does not answer, or its database is full, tries again until
-- the time that was the hold deadline at the first attempt; with the option fail_fast, tries only
-- once. Returns true; or nil, message, code, and true if the outcome is unknown.
local function write(self, lock, text)
  local ends, is_unknown = core.now() + lock:remaining(), nil
  while true do
    local is_written, message, code = lock:put(self._key, text)
    if is_written then
      return true
    end
    is_unknown = is_unknown or code == "unavailable" or nil
    -- After the end of the hold, the next attempt fails at once, with its reason.
    local is_over = core.now() >= ends and lock:_left()
    if code ~= "unavailable" or is_over or self._client._fail_fast then
      return nil, message, code, is_unknown
    end
    lock:wait_lost(RETRY_AFTER)
  end
end

-- Records that the run has succeeded. etcd writes the record only while the lock is held. Returns
-- true; or nil, message, code.
function Run:record(lock)
  local text = json.encode {
    started = self._started, ended = os.time(),
    seconds = math.floor((core.now() - self._due_at) * 1000 + 0.5) / 1000,
    host = core.host(), pid = core.pid(),
  }
  local is_written, message, code, is_unknown = write(self, lock, text)
  if is_written or is_unknown and self._client:get(self._key) == text then
    return true
  end
  return nil, explain(message, code) .. "; " .. (is_unknown
    and "it is not known whether the run is recorded; if not, the next start repeats it"
    or "the run is not recorded, and the next start repeats it"), code
end

-- ---- client:once ----

-- Ends a run whose function has returned. The further arguments are the results of the function.
-- Returns the results of client:once.
local function finish(run, lock, ...)
  local is_recorded, message, code = run:record(lock)
  if is_recorded then
    return true, ...
  end
  return nil, message, code, true, ...
end

-- The arguments are the results of acquire.run. If its function has run, returns the results of the
-- function; otherwise nil, message, code. The outcome of the release does not matter: a run that is
-- recorded was under the lock until its end, and for one that is not recorded, the results have the
-- reason.
local function drop_release(is_released, ...)
  if is_released then
    return ...
  elseif select("#", ...) > 2 then
    return select(4, ...) -- after message, code and true
  end
  return nil, ... -- the lock was not taken
end

--- Runs `fn` once in each period, on all machines together: takes the lock `name`, and calls `fn`
-- with the lock, unless a run in the present period, or in a later one, is recorded. Only a run
-- that has succeeded is recorded. The option [`--once-per`](command.md#once-per-period) of
-- `etcdlock run` has the same lock, record and rules, so a crontab and a service can share a job.
--
-- A run succeeds if `fn` returns, whatever it returns. So `fn` must raise an error if its work has
-- failed. The call then releases the lock and raises the error again, and the next call runs `fn`
-- again.
--
-- If another client runs the job, the call waits until that run has ended, and runs `fn` only if
-- that run has failed or belongs to an earlier period. With `timeout = 0` the call fails with
-- `locked` instead.
--
-- If `fn` has run, but the run could not be recorded (`lost`, `denied` and others), the call
-- returns nil, message, code, **true**, results of `fn`. If the lock is lost after the run was
-- recorded, the call succeeds.
-- @function client:once
-- @tparam string name
-- @tparam period period length of the period: 1 or more seconds, such as 86400 for a day; `"ever"`:
--   `fn` runs once, and never again
-- @tparam[opt] lock_options opts `timeout`: if neither the call nor `connect` has one, the wait
--   lasts until the period ends; in nginx, 5 s
-- @tparam body fn called with the lock
-- @treturn[1] true `fn` has run, and the run is recorded
-- @treturn[1] any results of `fn`
-- @treturn[2] false there was nothing to do
-- @treturn[2] string message, which says when and where `fn` has run
-- @treturn[2] run the recorded run
-- @fail as client:lock, not_held: if `fn` has run, true and its results follow; `invalid` also if
--   the record is not valid, or is more than one period ahead of this machine's clock; `denied`
--   also if the user may not read, or not write, the record; `not_held` if `fn` unlocked the lock
-- @raise an error of `fn`, the same object
function M:once(name, period, opts, fn)
  check.string(WHERE, "name", name)
  local length, message, code = read_period(period)
  opts, fn = check.options_and_function(WHERE, opts, fn)
  if not length then
    return nil, message, code
  end
  local run = M.start(self, name, length)
  return drop_release(acquire.run(function(lock)
    local is_due, reason, last = run:check(lock)
    if not is_due then
      return is_due, reason, last
    end
    return finish(run, lock, fn(lock))
  end, function(call)
    return run:take(opts, call)
  end))
end

-- ---- client:runs ----

--- A run of `client:runs`: the last successful run of a job.
-- @table run
-- @tfield string name name of the lock, without the client's prefix
-- @tfield time started time at which `client:once` was called, or etcdlock started, before the wait
--   for the lock. It decides to which period the run belongs
-- @tfield time ended time at which the run ended; if etcdlock 0.2.0 has recorded the run, `started`
-- @tfield[opt] seconds seconds how long the run took; missing if etcdlock 0.2.0 has recorded the
--   run
-- @tfield string host host name of the machine that has recorded the run. All times are by its
--   clock
-- @tfield count pid process ID of the client

-- Returns the list of the runs whose names begin with `prefix`; or nil, message, code. A slash in
-- `prefix` may be "/" or "%2F" in the keys, and "%" may be "%25". So the function lists all keys
-- that begin with the text before the first of these characters.
local function read_runs(client, snapshot, prefix)
  local own, found, runs = client._prefix, {}, {}
  local from, to = snapshots.range_of(own .. prefix:match "^[^%%/]*")
  local ok, message, code = snapshot:each_page(from, to, function(page)
    for _, kv in ipairs(page) do
      kv.name = find_name(own, kv.key:sub(#own + 1))
      local is_wanted = kv.name and kv.name:sub(1, #prefix) == prefix
      found[#found + 1] = is_wanted and kv or nil
    end
  end)
  if ok then
    ok, message, code = snapshot:read_values(found)
  end
  if not ok then
    return nil, message, code
  end
  for _, kv in ipairs(found) do
    runs[#runs + 1] = kv.value and decode(kv.name, kv.value)
  end
  table.sort(runs, function(a, b) return a.name < b.name end)
  return runs
end

--- Returns the last successful run of each job of `client:once` and `etcdlock run --once-per` whose
-- name begins with `prefix`, all as of one revision of etcd. Jobs of clients with a longer prefix
-- are listed, too: a client with the prefix `a/` sees the job `c` of a client with the prefix
-- `a/b/` as `b/c`. The etcd user needs permission to read all keys that begin with the client's
-- prefix, followed by `prefix` up to its first `/` or `%`; otherwise the call fails with `denied`.
-- @function client:runs
-- @tparam[opt=""] string prefix
-- @treturn {run,...} sorted by name
-- @fail a request error: also `unavailable` if not all records can be read within 5 s
function M:runs(prefix)
  prefix = prefix or ""
  local full_prefix, message, code = names.join_prefixes("client:runs", self._prefix, prefix)
  if not full_prefix then
    return nil, message, code
  end
  local what = full_prefix == "" and "all runs"
    or "runs whose names begin with " .. quote(full_prefix)
  return snapshots.read(self, what, self._get_deadline(), function(snapshot)
    return read_runs(self, snapshot, prefix)
  end)
end

return M
