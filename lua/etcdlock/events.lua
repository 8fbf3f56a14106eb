--- Events of a client: passes them to the function `log` of connect, and measures waits and
-- holds for the client's metrics.
--
-- The C core records up to 128 events between two calls of the program, such as a loss or a
-- failover; `deliver` reads them. Calls of the library report all other events. The log function
-- runs inside core.call, where it cannot yield, so no other coroutine runs while a lock is being
-- taken or released. core.call also catches the errors of the log function.
local core = require "etcdlock.core"
local escape = require("etcdlock.text").escape
local format_number = require("etcdlock.text").format_number
local label = require "etcdlock.label"
local names = require "etcdlock.names"
local quote = require("etcdlock.text").quote
local runtime = require "etcdlock.wait.runtime"

local Events = {}
Events.__index = Events

-- ---- events and their text ----

local LEAKED = "lock %s was released because its handle was collected as garbage;"
  .. " keep the result of client:lock until unlock, or use with_lock"

local LEAKED_IN_WITH = "lock %s was released because the coroutine that ran its with_lock was"
  .. " dropped and collected as garbage; keep the coroutine until it ends"

local MANY_CLIENTS = "this process has %d clients, each with a thread, a connection to etcd and a"
  .. " lease; connect once, where a module is loaded, and share that client"

-- The text for the field `by` of a `released` event.
local BY = {
  unlock = "",
  nginx_request = " with its nginx request",
  close = " with its client",
}

local function format_seconds(seconds)
  return format_number(seconds < 1 and "%.3g s" or "%.1f s", seconds)
end

-- kind -> { default level, function that returns the text of an event }.
-- doc/observability.md lists the kinds with their fields.
local KINDS = {
  waiting = { "info", function(event)
    return string.format("lock %s: still waiting after %s", quote(event.name),
      format_seconds(event.wait))
  end },
  still_waiting = { "warn", function(event)
    return string.format("lock %s: still waiting after %s%s", quote(event.name),
      format_seconds(event.wait), label.format_holder(event.holder))
  end },
  acquired = { "info", function(event)
    return string.format("lock %s: acquired after %s, token %.0f", quote(event.name),
      format_seconds(event.wait), event.token)
  end },
  not_acquired = { "warn", function(event)
    return string.format("lock %s: not acquired after %s, %s: %s", quote(event.name),
      format_seconds(event.wait), event.code, event.message)
  end },
  released = { "info", function(event)
    return string.format("lock %s: released%s after %s, token %.0f", quote(event.name),
      BY[event.by], format_seconds(event.hold), event.token)
  end },
  lost = { "warn", function(event)
    return string.format("lock %s: lost after %s, token %.0f, %s: %s", quote(event.name),
      format_seconds(event.hold), event.token, event.reason, event.message)
  end },
  leaked = { "warn", function(event)
    return (event.is_in_with and LEAKED_IN_WITH or LEAKED):format(quote(event.name))
  end },
  raised = { "warn", function(event)
    return string.format("lock %s: the function of with_lock raised an error: %s",
      quote(event.name), (event.message:gsub("%s*\n%s*", " | ")))
  end },
  failover = { "warn", function(event)
    return string.format("failover from member %s: %s", event.from, event.message)
  end },
  retry = { "warn", function(event)
    return string.format("%d %s to etcd failed and will be retried: %s", event.count,
      event.count > 1 and "requests" or "request", event.message)
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

-- Lets a log function join an event with other text, as it can do with a string.
function mt.__concat(a, b)
  return tostring(a) .. tostring(b)
end

-- Makes an event of the table `event`: sets the default level, and `ago` (seconds since it
-- happened) to 0 if it is missing. Returns the same table.
local function new_event(event)
  event.level = event.level or KINDS[event.event][1]
  event.ago = event.ago or 0
  return setmetatable(event, mt)
end

-- ---- the events of one client ----

-- Seconds: log_rate limits the events of each kind within this time.
local WINDOW = 1

--- Returns the events of the client `core_client`, a client of the C core. `options` are the
-- options of connect; log, log_rate and prefix are used. `metrics`: an object of metrics.lua, or
-- nil.
function Events.new(core_client, options, metrics)
  local windows = {}
  for _, kind in ipairs(Events.KINDS) do
    windows[kind] = { from = -math.huge, logged = 0, suppressed = 0 }
  end
  local self = setmetatable({
    --- True if the client has a log function or metrics. Constant.
    is_on = options.log ~= nil or metrics ~= nil,
    _core = core_client,
    _log = options.log,
    _rate = options.log_rate,
    _prefix = options.prefix,
    _metrics = metrics,
    -- kind -> the window of log_rate that began at `from` (core.now): `logged` events were passed
    -- to the log function in it; `suppressed` events were not, and are not reported yet.
    _windows = windows,
    -- True while a window has suppressed events.
    _has_suppressed = false,
    -- True while the log function runs.
    _is_logging = false,
    -- True after an error of the log function was reported.
    _has_reported_error = false,
    -- True after a leaked lock was reported without a log function.
    _has_reported_leak = false,
    -- Holds that ended while Lua collected garbage and are not in `_metrics` yet: a list of
    -- { name, mode, seconds }.
    _unmeasured = {},
  }, Events)
  core_client:attend(self)
  return self
end

-- ---- the log function ----

-- Calls the log function with `event`. Reports its first error on standard error (nginx: in its
-- log).
local function call_log(self, event)
  self._is_logging = true
  local ok, err = core.call(self._log, new_event(event))
  self._is_logging = false
  if not ok and not self._has_reported_error then
    self._has_reported_error = true
    local text = "etcdlock: the log function of this client failed (reported once): "
    runtime.log(text .. escape(tostring(err)))
  end
end

local function suppress(self, kind, count)
  local window = self._windows[kind]
  window.suppressed = window.suppressed + count
  self._has_suppressed = true
end

-- Reports the suppressed events of each kind the window of which is over; if `is_final`, of each
-- kind.
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

-- Tells whether log_rate admits another event of `kind`. If not, and there is a log function,
-- the event is counted as suppressed.
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

-- Reports a leaked lock of a client without a log function: the first on standard error (nginx:
-- in its log), later ones by `warn`, which Lua 5.4 has.
local function report_leak_without_log(self, event)
  local line = tostring(new_event(event))
  if not self._has_reported_leak then
    self._has_reported_leak = true
    runtime.log(line)
  elseif warn then -- luacheck: ignore warn
    warn(line) -- luacheck: ignore warn
  end
end

-- Returns the list of the names, without the client's prefix, in `subject`: the full names of a
-- lock, joined by NUL.
local function names_in(self, subject)
  local list = {}
  for name in (subject .. "\0"):gmatch "(.-)%z" do
    list[#list + 1] = name:sub(#self._prefix + 1)
  end
  return list
end

-- Returns the event for the end of a hold, as the core has recorded it in `record`, and measures
-- the hold; if `is_interrupt`, it is measured by the next call of deliver.
local function lock_event(self, record, is_interrupt)
  local list = names_in(self, record.subject)
  if self._metrics and is_interrupt then
    table.insert(self._unmeasured, { list[1], record.mode, record.hold })
  elseif self._metrics then
    self._metrics:observe_hold(list[1], record.mode, record.hold)
  end
  local event = {
    event = record.event, ago = record.ago, name = names.join(list), mode = record.mode,
    token = record.token, hold = record.hold,
  }
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

local function cluster_event(record)
  return {
    event = record.event, ago = record.ago, from = record.subject, message = record.why,
    count = record.event == "retry" and record.count or nil,
  }
end

local function deliver_record(self, record, is_interrupt)
  local event = record.mode and lock_event(self, record, is_interrupt) or cluster_event(record)
  if may_log(self, event.event) then
    call_log(self, event)
  elseif not self._log and event.event == "leaked" then
    report_leak_without_log(self, event)
  end
end

-- Counts the events as suppressed that the core could not record, because its buffer was full.
local function count_dropped(self)
  for kind, count in pairs(self._log and self._core:dropped_events() or {}) do
    if count > 0 then
      suppress(self, kind == "ended" and "released" or kind, count)
    end
  end
end

--- Passes the events that the core has recorded to the log function and the metrics, and reports
-- suppressed events. Calls of the program run it. `is_interrupt`: Lua's garbage collector runs it,
-- in the middle of any other function.
function Events:deliver(is_interrupt)
  if self._is_logging then
    return
  end
  while self._unmeasured[1] and not is_interrupt do
    local hold = table.remove(self._unmeasured)
    self._metrics:observe_hold(hold[1], hold[2], hold[3])
  end
  local record = self._core:next_event()
  if record then
    repeat
      deliver_record(self, record, is_interrupt)
      record = self._core:next_event()
    until not record
    count_dropped(self)
  end
  if self._has_suppressed then
    report_suppressed(self, false)
  end
end

--- Reports that Lua has just collected a held lock as garbage. The C core calls it. A log function
-- may do things that must not interrupt other functions, and the collector may have interrupted a
-- method of the metrics. So both get the event with the next call of the program.
function Events:report_leak()
  if not self._log then
    self:deliver(true)
  end
end

--- Delivers the remaining events of a closed client.
function Events:close()
  self:deliver()
  if self._has_suppressed and not self._is_logging then
    report_suppressed(self, true)
  end
end

-- ---- events that calls of the library report ----

--- Reports that this process has `count` live clients.
function Events:report_many_clients(count)
  local event = { event = "many_clients", count = count }
  if self._log then
    call_log(self, event)
  else
    runtime.advise(tostring(new_event(event)))
  end
end

--- Reports that `acquisition` (acquire.lua) still waits.
function Events:report_waiting(acquisition)
  if may_log(self, "waiting") then
    call_log(self, {
      event = "waiting", name = acquisition.name, mode = acquisition.mode,
      wait = core.now() - acquisition.started_at, timeout = acquisition.timeout,
    })
  end
end

--- Reports that `acquisition` has waited for long, for `holder` (label.lua; may be nil).
function Events:report_still_waiting(acquisition, holder)
  if may_log(self, "still_waiting") then
    call_log(self, {
      event = "still_waiting", name = acquisition.name, mode = acquisition.mode,
      wait = core.now() - acquisition.started_at, timeout = acquisition.timeout,
      holder = holder,
    })
  end
end

--- Reports that `acquisition` was granted as `lock`.
function Events:report_acquired(acquisition, lock)
  local wait = core.now() - acquisition.started_at
  if self._metrics then
    self._metrics:observe_wait(acquisition.names[1], acquisition.mode, wait)
  end
  if may_log(self, "acquired") then
    call_log(self, {
      event = "acquired", name = acquisition.name, mode = acquisition.mode, token = lock:token(),
      wait = wait,
    })
  end
end

--- Reports that `acquisition` has failed with `message` and `code`.
function Events:report_not_acquired(acquisition, message, code)
  if self._metrics then
    self._metrics:count_failure(acquisition.names[1], acquisition.mode, code)
  end
  if may_log(self, "not_acquired") then
    call_log(self, {
      event = "not_acquired", level = code == "locked" and "info" or nil, name = acquisition.name,
      mode = acquisition.mode, wait = core.now() - acquisition.started_at,
      code = code, message = message,
    })
  end
end

--- Reports that the owner has released `lock`, after it was held for `hold` seconds.
function Events:report_released(lock, hold)
  if self._metrics then
    self._metrics:observe_hold(lock._acquisition.names[1], lock._mode, hold)
  end
  if may_log(self, "released") then
    call_log(self, {
      event = "released", name = lock:name(), mode = lock._mode, token = lock:token(),
      hold = hold, by = "unlock",
    })
  end
end

--- Reports that a function that ran under `lock` has raised `err`, with its `traceback`. with_lock
-- raises the error again, and programs that catch it see only the new place. An error that is not a
-- text is raised to be caught, so without a log function it is not reported.
function Events:report_raised(lock, traceback, err)
  local event = {
    event = "raised", name = lock:name(), mode = lock._mode, token = lock:token(),
    message = traceback,
  }
  if may_log(self, "raised") then
    call_log(self, event)
  elseif not self._log and type(err) == "string" then
    runtime.advise(tostring(new_event(event)), true)
  end
end

return Events
