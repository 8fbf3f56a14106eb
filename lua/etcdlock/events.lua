--- The events of one client. This module passes them to the log function, which is connect's option
-- `log`. It also adds the durations of waits and holds to the client's metrics.
--
-- Some events happen between two calls of the program, such as a loss or a failover. The C core
-- records up to 128 of them, and Events:deliver reads them. The functions of this library report
-- all other events, by the methods report_….
--
-- core.call_alone runs the log function and catches its errors. Inside it the log function cannot
-- yield. Otherwise another coroutine could run while a lock is being taken or released.
local core = require "etcdlock.core"
local escape = require("etcdlock.text").escape
local format_number = require("etcdlock.text").format_number
local label = require "etcdlock.label"
local names = require "etcdlock.names"
local Outages = require "etcdlock.outages"
local runtime = require "etcdlock.wait.runtime"

local Events = {}
Events.__index = Events

-- ---- events and their text ----

local LEAKED = "%s was released because its handle was collected as garbage;"
  .. " keep the result of client:lock (resty.etcdlock: the object) until unlock, or use with_lock"

local LEAKED_IN_WITH = "%s was released because the coroutine that ran its with_lock was"
  .. " dropped and collected as garbage; keep the coroutine until it ends"

local MANY_CLIENTS = "this process has %d clients, each with a thread, a connection to etcd and a"
  .. " lease; connect once, where a module is loaded, and share that client"

-- Value of the field `by` of a `released` event -> a part of the event's text.
local BY = {
  unlock = "",
  nginx_request = " with its nginx request",
  close = " with its client",
}

local function subject_of(event)
  return names.describe(event.mode, event.name)
end

local function format_seconds(seconds)
  return format_number(seconds < 1 and "%.3g s" or "%.1f s", seconds)
end

-- kind -> { default level, function that returns the text of an event }.
-- doc/observability.md lists the kinds with their fields.
local KINDS = {
  waiting = { "info", function(event)
    return string.format("%s: still waiting after %s", subject_of(event),
      format_seconds(event.wait))
  end },
  still_waiting = { "warn", function(event)
    return string.format("%s: still waiting after %s%s", subject_of(event),
      format_seconds(event.wait), label.format_holder(event.holder))
  end },
  acquired = { "info", function(event)
    return string.format("%s: acquired after %s, token %.0f", subject_of(event),
      format_seconds(event.wait), event.token)
  end },
  not_acquired = { "warn", function(event)
    return string.format("%s: not acquired after %s, %s: %s", subject_of(event),
      format_seconds(event.wait), event.code, event.message)
  end },
  released = { "info", function(event)
    return string.format("%s: released%s after %s, token %.0f", subject_of(event),
      BY[event.by], format_seconds(event.hold), event.token)
  end },
  lost = { "warn", function(event)
    return string.format("%s: lost after %s, token %.0f, %s: %s", subject_of(event),
      format_seconds(event.hold), event.token, event.reason, event.message)
  end },
  leaked = { "warn", function(event)
    return (event.is_in_with and LEAKED_IN_WITH or LEAKED):format(subject_of(event))
  end },
  raised = { "warn", function(event)
    return string.format("%s: the function of with_lock raised an error: %s",
      subject_of(event), (event.message:gsub("%s*\n%s*", " | ")))
  end },
  requeued = { "warn", function(event)
    return string.format("%s: the client's lease has ended during the wait; it waits again,"
      .. " at the end of the queue", subject_of(event))
  end },
  failover = { "warn", function(event)
    return string.format("failover from member %s: %s", event.from, event.message)
  end },
  retry = { "warn", function(event)
    return string.format("%d %s to etcd failed; the client keeps trying: %s", event.count,
      event.count > 1 and "requests" or "request", event.message)
  end },
  -- The end of an outage has the level of its beginning, so that a log shows both or none.
  recovered = { "warn", function(event)
    local more = event.count > 0 and ("; %d more %s failed"):format(event.count,
      event.count > 1 and "requests" or "request") or ""
    return string.format("etcd answers again after %s%s", format_seconds(event.outage), more)
  end },
  permits_differ = { "warn", function(event)
    return string.format("%s: %s; give the same number everywhere, because the largest one is"
      .. " the limit", subject_of(event), label.format_permits(event.permits, event.other))
  end },
  many_clients = { "warn", function(event)
    return MANY_CLIENTS:format(event.count)
  end },
  suppressed = { "warn", function(event)
    return string.format('%d more "%s" events suppressed', event.count, event.of)
  end },
}

--- The names of all kinds of events, in no order.
Events.KINDS = {}
for kind in pairs(KINDS) do
  Events.KINDS[#Events.KINDS + 1] = kind
end

local mt = { __name = "etcdlock.event" }

function mt.__tostring(event)
  local late = event.ago >= 1 and string.format(" (%s ago)", format_seconds(event.ago)) or ""
  return "etcdlock: " .. escape(KINDS[event.event][2](event)) .. late
end

-- Lets a log function concatenate an event with a string, as in `"text " .. event`.
function mt.__concat(a, b)
  return tostring(a) .. tostring(b)
end

-- Turns the table `event` into an event and returns the same table. Sets two fields if they are
-- missing: `level` to the default level of the kind, and `ago` (seconds since the event happened)
-- to 0.
local function new_event(event)
  event.level = event.level or KINDS[event.event][1]
  event.ago = event.ago or 0
  return setmetatable(event, mt)
end

-- ---- the events of one client ----

-- Length of a window in seconds. connect's option `log_rate` is the largest number of events of one
-- kind that are logged in one window.
local WINDOW = 1

--- Creates the object for the events of one client. `core_client` is its client of the C core. Of
-- the connect options in `options`, the object uses `log` and `log_rate`. `metrics` is an object of
-- metrics.lua; nil: no metrics.
function Events.new(core_client, options, metrics)
  local windows, is_on = {}, options.log ~= nil or metrics ~= nil
  for _, kind in ipairs(Events.KINDS) do
    windows[kind] = { from = -math.huge, logged = 0, suppressed = 0 }
  end
  local self = setmetatable({
    --- True if the client has a log function or metrics. Constant.
    is_on = is_on,
    --- True if calls that take a lock or wait deliver events: always in nginx, because losses go to
    -- its error log. Constant.
    is_heard = is_on or runtime.has_error_log,
    _core = core_client,
    _log = options.log,
    _rate = options.log_rate,
    _metrics = metrics,
    -- Kind of event -> its present window. Fields of a window:
    --   from        when the window began (core.now)
    --   logged      number of events that the log function got in this window
    --   suppressed  number of events that the log function did not get, and that no event
    --               `suppressed` has reported yet
    _windows = windows,
    -- True while a window has suppressed events.
    _has_suppressed = false,
    -- True if the core may have dropped events that count_dropped has not counted yet.
    _may_have_dropped = false,
    _outages = Outages.new(),
    _is_logging = false,
    -- Set of the full names of semaphores about which `permits_differ` was reported, and its size.
    _differing = {},
    _n_differing = 0,
    _has_reported_error = false, -- an error of the log function
    _has_reported_leak = false, -- without a log function
    -- Ended holds that are not in `_metrics` yet, because Lua's garbage collector ran when their
    -- end was reported: a list of the arguments of observe_hold.
    _unmeasured = {},
  }, Events)
  core_client:attend(self)
  return self
end

-- ---- the log function ----

-- Calls the log function with `event`. Only the first error of the log function is reported, by
-- runtime.log: on standard error, or in nginx's error log.
local function call_log(self, event)
  local ok, err = core.call_alone(self, "_is_logging", self._log, new_event(event))
  if not ok and not self._has_reported_error then
    self._has_reported_error = true
    local text = "etcdlock: the log function of this client failed (reported once): "
    runtime.log(text .. escape(tostring(err)))
  end
end

-- Writes `event` of a client without a log function to standard error or to nginx's error log. In
-- nginx's log it is a warning if `is_warning` is true, otherwise an error.
local function write(event, is_warning)
  runtime.log(tostring(new_event(event)), is_warning)
end

-- As `write`, but writes nothing outside of nginx.
local function write_in_nginx(event, is_warning)
  if runtime.has_error_log then
    write(event, is_warning)
  end
end

local function suppress(self, kind, count)
  local window = self._windows[kind]
  window.suppressed = window.suppressed + count
  self._has_suppressed = true
end

-- Reports how many events of each kind were suppressed, by an event `suppressed` for each kind. If
-- the window of a kind is not over yet, reports that kind only if `is_final` is true.
local function report_suppressed(self, is_final)
  local now = core.now()
  self._has_suppressed = false
  for kind, window in pairs(self._windows) do
    local count = window.suppressed
    if count > 0 and (is_final or now - window.from >= WINDOW) then
      window.suppressed = 0
      call_log(self, { event = "suppressed", of = kind, count = count })
    elseif count > 0 then
      self._has_suppressed = true
    end
  end
end

-- Returns true if the log function may get an event of `kind` now, and counts the event as logged.
-- Returns false if there is no log function. If log_rate is reached, or the log function is
-- running, returns false and counts the event as suppressed.
local function may_log(self, kind)
  if not self._log then
    return false
  end
  local window, now = self._windows[kind], core.now()
  if now - window.from >= WINDOW then
    window.from, window.logged = now, 0
  end
  if self._is_logging or window.logged >= self._rate then
    suppress(self, kind, 1)
    return false
  end
  window.logged = window.logged + 1
  return true
end

-- ---- events that the C core has recorded ----

-- Reports a leaked lock if the client has no log function. runtime.log reports the first leaked
-- lock of the client, on standard error or in nginx's error log. Lua's function `warn` reports
-- later ones; before Lua 5.4, which introduced `warn`, they are not reported.
local function report_leak_without_log(self, event)
  if not self._has_reported_leak then
    self._has_reported_leak = true
    write(event)
  elseif warn then -- luacheck: ignore warn
    warn(tostring(new_event(event))) -- luacheck: ignore warn
  end
end

-- Returns the list of a lock's full names; `subject` is these names, joined by NUL.
local function names_in(subject)
  local list = {}
  for name in (subject .. "\0"):gmatch "(.-)%z" do
    list[#list + 1] = name
  end
  return list
end

-- Returns an event for `record`, a record of the core about a lock, with the fields that all events
-- of locks have.
local function event_of(record)
  return {
    event = record.event, ago = record.ago, name = names.join(names_in(record.subject)),
    mode = record.mode,
  }
end

-- Returns the event for `record`, the core's record of the end of a hold. Also adds the duration of
-- the hold to the metrics. If `is_interrupt` is true, a later call of deliver adds the duration,
-- because the garbage collector may have interrupted a method of the metrics.
local function hold_event(self, record, is_interrupt)
  local event = event_of(record)
  local name = self._metrics and names_in(record.subject)[1]
  if self._metrics and is_interrupt then
    table.insert(self._unmeasured, { name, record.mode, record.lasted, record.event })
  elseif self._metrics then
    self._metrics:observe_hold(name, record.mode, record.lasted, record.event)
  end
  event.token, event.hold = record.token, record.lasted
  if record.event == "leaked" then
    event.is_in_with = record.is_in_with
  elseif record.event == "ended" then
    event.event, event.by = "released", record.reason and "close" or "nginx_request"
  elseif record.event == "lost" then
    event.reason = record.reason
    event.message = record.text .. (record.why and ": " .. record.why or "")
  end
  return event
end

local function log(self, event)
  if may_log(self, event.event) then
    call_log(self, event)
  end
end

local function deliver_lock_event(self, event)
  if self._log then
    log(self, event)
  elseif event.event == "leaked" then
    report_leak_without_log(self, event)
  elseif event.event == "lost" then
    -- An end by max_hold is no error, because the program has chosen max_hold.
    if event.reason == "max_hold" then
      write_in_nginx(event, true)
    else
      write(event)
    end
  end
end

local function deliver_record(self, record, is_interrupt)
  if record.event == "requeued" then
    log(self, event_of(record))
  elseif record.mode then
    deliver_lock_event(self, hold_event(self, record, is_interrupt))
  elseif record.event == "retry" then
    self._outages:add_failures(record.why, record.count, record.ago)
  elseif record.event == "recovered" then
    self._outages:add_recovery(record.lasted, record.ago)
  else
    log(self, {
      event = record.event, ago = record.ago, from = record.subject, message = record.why,
    })
  end
end

local function report_outages(self, is_final)
  for _, event in ipairs(self._outages:take_events(is_final)) do
    log(self, event)
  end
end

-- Asks the core how many events it could not record because its buffer was full, and counts them as
-- suppressed; lost and leaked locks also in the metrics.
local function count_dropped(self)
  for kind, count in pairs(self.is_on and self._core:dropped_events() or {}) do
    if count > 0 and self._log then
      suppress(self, kind == "ended" and "released" or kind, count)
    end
    if count > 0 and self._metrics and (kind == "lost" or kind == "leaked") then
      self._metrics:count_ends(kind, count)
    end
  end
end

--- Passes the events that the core has recorded to the log function and the metrics, and reports
-- suppressed events. `is_interrupt` is true if Lua's garbage collector runs deliver, perhaps in the
-- middle of another function; otherwise a call of the program runs it.
function Events:deliver(is_interrupt)
  if self._is_logging then
    return
  end
  while self._unmeasured[1] and not is_interrupt do
    local hold = table.remove(self._unmeasured)
    self._metrics:observe_hold(hold[1], hold[2], hold[3], hold[4])
  end
  local record = self._core:next_event()
  if record then
    self._may_have_dropped = true
    repeat
      deliver_record(self, record, is_interrupt)
      record = self._core:next_event()
    until not record
  end
  if self._may_have_dropped and not is_interrupt then
    self._may_have_dropped = false
    count_dropped(self)
  end
  if self._outages.is_active then
    report_outages(self, false)
  end
  if self._has_suppressed then
    report_suppressed(self, false)
  end
end

--- The C core calls report_leak when Lua has just collected a held lock as garbage, perhaps in the
-- middle of another function. Without a log function, report_leak reports the leaked lock at once.
-- A log function gets the event only in the next call of the program, because it may do things that
-- must not interrupt another function. The metrics, too, get the hold only then, because the
-- collector may have interrupted one of their methods.
function Events:report_leak()
  if not self._log then
    self:deliver(true)
  end
end

--- Delivers the remaining events of a closed client.
function Events:close()
  self:deliver()
  if self._is_logging then
    return
  end
  report_outages(self, true)
  if self._has_suppressed then
    report_suppressed(self, true)
  end
end

-- ---- events that calls of the library report ----

--- Reports that this Lua state has `count` live clients. Without a log function, reports it in
-- nginx only.
function Events:report_many_clients(count)
  local event = { event = "many_clients", count = count }
  if self._log then
    call_log(self, event)
  else
    write_in_nginx(event, true)
  end
end

-- Largest number of semaphores that are remembered, so that they are not reported again.
local DIFFERING_MAX = 1000

--- Reports that two clients use a semaphore with different numbers of permits: `lock`, a permit of
-- this client, and `other`, a holder (label.lua) with the field `permits`. Reports each semaphore
-- once, unless more than DIFFERING_MAX differ.
function Events:report_other_permits(lock, other)
  local name = lock._full_name
  if self._differing[name] or self._log and not may_log(self, "permits_differ") then
    return
  end
  if self._n_differing == DIFFERING_MAX then
    self._differing, self._n_differing = {}, 0
  end
  self._differing[name], self._n_differing = true, self._n_differing + 1
  local event = {
    event = "permits_differ", name = name, mode = lock._mode, permits = lock._permits,
    other = other,
  }
  if self._log then
    call_log(self, event)
  else
    write(event, true)
  end
end

--- Reports that the core waits for `lock` from now on.
function Events:report_started(lock)
  if self._metrics then
    self._metrics:begin_wait(lock)
  end
end

--- Reports that a call still waits for `lock`.
function Events:report_waiting(lock)
  if may_log(self, "waiting") then
    call_log(self, {
      event = "waiting", name = names.full_name_of(lock), mode = lock._mode,
      wait = core.now() - lock._started_at, timeout = lock._timeout,
    })
  end
end

--- Reports that a call has waited for `lock` for a long time. `holder` is the holder of the lock, a
-- table that label.lua describes; nil: unknown.
function Events:report_still_waiting(lock, holder)
  if may_log(self, "still_waiting") then
    call_log(self, {
      event = "still_waiting", level = lock._mode == "leader" and "info" or nil,
      name = names.full_name_of(lock), mode = lock._mode,
      wait = core.now() - lock._started_at, timeout = lock._timeout,
      holder = holder,
    })
  end
end

--- Reports that `lock` was acquired.
function Events:report_acquired(lock)
  local wait = core.now() - lock._started_at
  if self._metrics then
    self._metrics:observe_wait(lock, wait)
  end
  if may_log(self, "acquired") then
    call_log(self, {
      event = "acquired", name = names.full_name_of(lock), mode = lock._mode, token = lock:token(),
      wait = wait,
    })
  end
end

--- Reports that `lock` was not acquired, because of `message` and `code`.
function Events:report_not_acquired(lock, message, code)
  if self._metrics then
    self._metrics:count_failure(lock, code)
  end
  -- A candidate of an election is a standby as long as another one leads.
  local is_expected = code == "locked" or code == "timeout" and lock._mode == "leader"
  if may_log(self, "not_acquired") then
    call_log(self, {
      event = "not_acquired", level = is_expected and "info" or nil,
      name = names.full_name_of(lock), mode = lock._mode, wait = core.now() - lock._started_at,
      code = code, message = message,
    })
  end
end

--- Reports that the owner has released `lock`, after it was held for `hold` seconds.
function Events:report_released(lock, hold)
  if self._metrics then
    self._metrics:observe_hold(names.first_of(lock), lock._mode, hold)
  end
  if may_log(self, "released") then
    call_log(self, {
      event = "released", name = names.full_name_of(lock), mode = lock._mode, token = lock:token(),
      hold = hold, by = "unlock",
    })
  end
end

--- Reports that the function that ran under `lock` in with_lock has raised `err`. `traceback` shows
-- where. The report is necessary because with_lock raises the error again: a program that catches
-- it sees only the place in with_lock. Without a log function, reports the error in nginx only, and
-- only if it is a string, because a program that raises a table, for example, means to catch it.
function Events:report_raised(lock, traceback, err)
  local event = {
    event = "raised", name = names.full_name_of(lock), mode = lock._mode, token = lock:token(),
    message = traceback,
  }
  if may_log(self, "raised") then
    call_log(self, event)
  elseif not self._log and type(err) == "string" then
    write_in_nginx(event)
  end
end

return Events
