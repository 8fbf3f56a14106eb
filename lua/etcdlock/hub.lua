--- The waits of one client that event loops are in charge of: numbers, and whom
-- to wake when the core says that one has come to its end.
local core = require "etcdlock.core"

local Hub = {}
Hub.__index = Hub

local ALARM = 0 -- the number that the core's alarm comes with
-- Alarms don't come more often: each looks at all waits that have an end.
local TICK = 0.02 -- seconds

--- `loop` is what connect's option named; `watched` are the locks (keys) whose
-- loss is news for those who wait.
function Hub.new(core_client, loop, watched)
  return setmetatable({
    core = core_client,
    loop = loop,
    _last = 0,
    _wakers = {},
    _ends = {},
    _news = {},
    _polled = {},
    watched = watched,
    _hearers = {},
    _due = {},
    _closers = {},
  }, Hub)
end

--- The number of a new wait, never used before.
function Hub:number()
  self._last = self._last + 1
  return self._last
end

local function set_alarm(self, at)
  if at and (not self._alarm or at < self._alarm) then
    self._alarm = at
    self.core:alarm(math.max(at - core.now(), TICK))
  end
end

--- Has wake() called, once, when the wait of the number that is returned has
-- ended, or at `ends` (on the clock of core.now), for loops without timers. wake
-- must neither yield nor raise. `wait` hears news, too, unless it is deaf.
-- @return number | nil, message, code: there is no descriptor to wait with | nil:
--   there are news
function Hub:park(wait, wake, ends)
  local fd, message, code = self.core:wake_fd()
  if not fd then
    return nil, message, code
  end
  for lock in pairs(self.watched) do
    lock:_watch_loss()
  end
  if self.is_untold and not wait.is_deaf then
    return nil -- first things first
  end
  local id = self:number()
  self._wakers[id] = wake
  self._hearers[id] = not wait.is_deaf or nil
  self._ends[id] = ends
  set_alarm(self, ends)
  return id
end

--- The number of something that isn't waited for, but of which somebody shall
-- hear: all who wait are woken, since some may be forgotten, and look around. The
-- hub is_untold until one has.
function Hub:expect_news()
  local id = self:number()
  self._news[id] = true
  return id
end

--- The number of something whose own program polls the descriptor: tell() is
-- called when it has ended, since whoever delivers takes that off the descriptor.
function Hub:expect_poll(tell)
  local id = self:number()
  self._polled[id] = tell
  return id
end

--- Nothing will be heard of it.
function Hub:forget_news(id)
  self._news[id] = nil
end

--- Forgets a wait, whether it has ended or not. Was it the last one of those that
-- `watcher` counts, if there is one?
function Hub:leave(id, watcher)
  self._polled[id] = nil
  self._wakers[id] = nil
  self._hearers[id] = nil
  self._ends[id] = nil
  if watcher then
    watcher.count = watcher.count - 1
    return watcher.count == 0
  end
end

--- Adds those whose time has come to the list of those to be woken.
local function ring(self, due)
  local now, first = core.now(), nil
  for id, ends in pairs(self._ends) do
    if ends <= now then
      due[#due + 1] = id
    elseif not first or ends < first then
      first = ends
    end
  end
  self._alarm = nil
  set_alarm(self, first)
end

--- Wakes those whose wait has ended; for when the descriptor is readable.
function Hub:deliver()
  for _, id in ipairs(self.core:woken()) do
    self._due[#self._due + 1] = id
  end
  if self._delivering then
    return -- whoever was woken called this; the call that woke it goes on
  end
  self._delivering = true
  local i = 1
  while self._due[i] do
    local id = self._due[i]
    if self._news[id] then
      self._news[id] = nil
      self.is_untold = true
      for hearer in pairs(self._hearers) do
        self._due[#self._due + 1] = hearer
      end
    end
    local wake = id and self._wakers[id]
    if self._polled[id] then
      self._polled[id]()
      self._polled[id] = nil
    elseif id == ALARM then
      ring(self, self._due)
    elseif wake then
      self:leave(id)
      wake()
    end
    i = i + 1
  end
  self._due = {}
  self._delivering = false
end

--- Has close(descriptor) called before the descriptor is closed; nil: not any
-- more.
function Hub:on_close(key, close)
  self._closers[key] = close
end

--- Closes the core client, and wakes everybody: their waits are over.
function Hub:close(seconds)
  if self.core:usable() then
    for _, close in pairs(self._closers) do
      close(self.core:wake_fd())
    end
  end
  self.core:close(seconds)
  self:deliver()
end

return Hub
