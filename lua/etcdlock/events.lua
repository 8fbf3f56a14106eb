--- What happens to a client: told to its `log`, and counted for its metrics.
--
-- What the core notes meanwhile (a loss, say) waits there until the client is called; the
-- rest comes from those who do it. `log` is called so that it can't yield: nobody
-- else runs in the middle of taking or releasing a lock. Whatever it raises stays here.
local characters = require "etcdlock.characters"
local core = require "etcdlock.core"
local event = require "etcdlock.event"
local host = require "etcdlock.wait.host"
local names = require "etcdlock.names"

local Events = {}
Events.__index = Events

-- The rate limit counts by the second.
local WINDOW = 1

--- For the client with this core; `options` are connect's: log, log_rate, prefix. `metrics`
-- may be nil.
function Events.new(core_client, options, metrics)
  local windows = {}
  for _, kind in ipairs(event.KINDS) do
    windows[kind] = { from = -math.huge, told = 0, left_out = 0 }
  end
  local self = setmetatable({
    --- Does anybody want to hear of all that happens?
    is_on = options.log ~= nil or metrics ~= nil,
    _core = core_client,
    _log = options.log,
    _rate = options.log_rate,
    _prefix = options.prefix,
    _metrics = metrics,
    _windows = windows,
    _has_left_out = false, -- and not told of it
    _is_logging = false,
    _has_complained = false,
    _has_told = false, -- of a lock that was collected, where there is no log
    _unmeasured = {}, -- what `metrics` are to be told of, once nothing is interrupted
  }, Events)
  core_client:attend(self)
  return self
end

-- ---- the log ----

local function call(self, one)
  self._is_logging = true
  local ok, err = core.call(self._log, event.new(one))
  self._is_logging = false
  if not ok and not self._has_complained then
    self._has_complained = true
    local text = "etcdlock: the log function of this client failed (reported once): "
    host.log(text .. characters.clean(tostring(err)))
  end
end

local function leave_out(self, kind, count)
  local window = self._windows[kind]
  window.left_out = window.left_out + count
  self._has_left_out = true
end

--- Tells what the rate limit has kept back, of those kinds whose second is over, or of
-- `all`.
local function tell_left_out(self, all)
  local now = core.now()
  self._has_left_out = false
  for kind, window in pairs(self._windows) do
    local count = window.left_out
    if count > 0 and (all or now - window.from >= WINDOW) then
      window.left_out = 0
      call(self, { event = "suppressed", of = kind, count = count })
    elseif count > 0 then
      self._has_left_out = true
    end
  end
end

--- Is one more of this kind to be told? If not, it is counted.
local function may_log(self, kind)
  if not self._log then
    return false
  end
  local window, now = self._windows[kind], core.now()
  if now - window.from >= WINDOW then
    window.from, window.told = now, 0
  end
  if self._is_logging or window.told >= self._rate then
    leave_out(self, kind, 1)
    return false
  end
  window.told = window.told + 1
  return true
end

-- ---- what the core has noted ----

--- Where there is no log: the first time on standard error (in nginx its error log), and
-- then by `warn`, where Lua has it (5.4).
local function tell_somewhere(self, one)
  local line = tostring(event.new(one))
  if not self._has_told then
    self._has_told = true
    host.log(line)
  elseif warn then -- luacheck: ignore warn
    warn(line) -- luacheck: ignore warn
  end
end

--- The names of a lock as its owner said them: `full` is one with the prefix, or several.
local function names_of(self, full)
  local asked = {}
  for one in (full .. "\0"):gmatch "(.-)%z" do
    asked[#asked + 1] = one:sub(#self._prefix + 1)
  end
  return asked
end

--- The event of a lock that has ended, as the core has noted it.
local function of_lock(self, noted, interrupts)
  local asked = names_of(self, noted.subject)
  if self._metrics and interrupts then
    table.insert(self._unmeasured, { asked[1], noted.mode, noted.hold })
  elseif self._metrics then
    self._metrics:held(asked[1], noted.mode, noted.hold)
  end
  local one = {
    event = noted.event, ago = noted.ago, name = names.shown(asked), mode = noted.mode,
    token = noted.token, hold = noted.hold,
  }
  if noted.event == "ended" then
    one.event, one.by = "released", noted.reason and "close" or "nginx_request"
  elseif noted.event == "lost" then
    one.reason = noted.reason
    one.message = noted.text .. (noted.why and ": " .. noted.why or "")
  end
  return one
end

local function of_cluster(noted)
  return {
    event = noted.event, ago = noted.ago, from = noted.subject, message = noted.why,
    count = noted.event == "retry" and noted.count or nil,
  }
end

local function tell_one(self, noted, interrupts)
  local one = noted.mode and of_lock(self, noted, interrupts) or of_cluster(noted)
  if may_log(self, one.event) then
    call(self, one)
  elseif not self._log and one.event == "leaked" then
    tell_somewhere(self, one)
  end
end

local function count_unnoted(self)
  for kind, count in pairs(self._log and self._core:dropped_events() or {}) do
    if count > 0 then
      leave_out(self, kind == "ended" and "released" or kind, count)
    end
  end
end

--- Tells what there is to tell. For everybody who is called by the program; `interrupts`:
-- by Lua's collector, in the middle of whatever runs.
function Events:tell(interrupts)
  if self._is_logging then
    return
  end
  while self._unmeasured[1] and not interrupts do
    local one = table.remove(self._unmeasured)
    self._metrics:held(one[1], one[2], one[3])
  end
  local noted = self._core:next_event()
  if noted then
    repeat
      tell_one(self, noted, interrupts)
      noted = self._core:next_event()
    until not noted
    count_unnoted(self)
  end
  if self._has_left_out then
    tell_left_out(self, false)
  end
end

--- Lua has just collected a lock that was held. A log may do what mustn't be done in the
-- middle of somebody's work, and metrics may be what was interrupted: they hear of it with
-- the next call.
function Events:tell_collected()
  if not self._log then
    self:tell(true)
  end
end

--- The client is closed.
function Events:close()
  self:tell()
  if self._has_left_out and not self._is_logging then
    tell_left_out(self, true)
  end
end

-- ---- what others tell ----

--- A request (acquire.lua), whose `began` tells when it was made, still waits.
function Events:waiting(request)
  if may_log(self, "waiting") then
    call(self, {
      event = "waiting", name = request.name, mode = request.mode,
      wait = core.now() - request.began, timeout = request.timeout,
    })
  end
end

--- The lock that came of a request.
function Events:acquired(request, lock)
  local wait = core.now() - request.began
  if self._metrics then
    self._metrics:waited(request.names[1], request.mode, wait)
  end
  if may_log(self, "acquired") then
    call(self, {
      event = "acquired", name = request.name, mode = request.mode, token = lock:token(),
      wait = wait,
    })
  end
end

--- None came of it.
function Events:not_acquired(request, message, code)
  if self._metrics then
    self._metrics:failed(request.names[1], request.mode, code)
  end
  if may_log(self, "not_acquired") then
    call(self, {
      event = "not_acquired", level = code == "locked" and "info" or nil, name = request.name,
      mode = request.mode, wait = core.now() - request.began, code = code, message = message,
    })
  end
end

--- A lock was let go of, after so many seconds.
function Events:released(lock, hold)
  if self._metrics then
    self._metrics:held(lock._request.names[1], lock._mode, hold)
  end
  if may_log(self, "released") then
    call(self, {
      event = "released", name = lock:name(), mode = lock._mode, token = lock:token(),
      hold = hold, by = "unlock",
    })
  end
end

return Events
