--- Which locks of one client somebody wants to hear the loss of, and how he does:
-- inside a later call, never by itself.
local host = require "etcdlock.wait.host"

local Losses = {}
Losses.__index = Losses

function Losses.new(wakeups)
  return setmetatable({
    _wakeups = wakeups,
    _hearers = {}, -- who waits (keys)
    --- The locks with handlers (keys), numbered in the order in which they got the first one.
    watched = setmetatable({}, { __mode = "k" }),
    _n_watched = 0, -- the last number
    --- Has something been lost of which no wait has told yet?
    is_untold = false,
  }, Losses)
end

--- Does this lock have handlers that are due?
local function is_due(lock)
  lock:_left() -- notices an expiry of this moment
  local loss = lock._handlers and lock._core:loss()
  return loss and loss ~= "closed"
end

--- Calls all handlers of the locks in the list `due`, and then raises the first error of one.
local function call_handlers(self, due)
  local failed, failure
  for _, lock in ipairs(due) do
    -- No handlers are left if a handler of another lock has made a call that ran them.
    local handlers, loss = lock._handlers or {}, lock._core:loss()
    lock._handlers = nil
    self.watched[lock] = nil
    for _, handler in ipairs(handlers) do
      local ok, err = pcall(handler, lock, loss)
      if not ok and not failed then
        failed, failure = true, err
      end
    end
  end
  if failed then
    error(failure, 0)
  end
end

--- Calls the handlers that are due, but not those of another request.
function Losses:tell()
  self.is_untold = false
  if next(self.watched) == nil then
    return
  end
  local due, numbers = {}, {}
  for lock, number in pairs(self.watched) do
    if host.is_told(lock) and is_due(lock) then
      due[#due + 1] = lock
      numbers[lock] = number
    end
  end
  table.sort(due, function(a, b)
    return numbers[a] < numbers[b]
  end)
  call_handlers(self, due)
end

--- Has fn(lock, reason) called once if the lock is lost, or at once if it is.
function Losses:watch(lock, fn)
  lock._handlers = lock._handlers or {}
  table.insert(lock._handlers, fn)
  if not self.watched[lock] then
    self._n_watched = self._n_watched + 1
    self.watched[lock] = self._n_watched
  end
  if is_due(lock) then
    call_handlers(self, { lock })
  end
end

--- The lock is about to be released, which is no news.
function Losses:expect_no_news(lock)
  if lock._news then
    self._wakeups.core:disarm(lock._core, "ended", lock._news)
    self._wakeups:forget(lock._news)
    lock._news = nil
  end
end

--- The lock was released; was it lost before?
function Losses:leave(lock, was_lost)
  if was_lost then
    self.is_untold = true -- we may just have taken the news back
  else
    self.watched[lock] = nil
  end
end

--- The core tells of a loss. All who wait are woken, since some may be forgotten, and
-- look around.
function Losses:wake()
  self.is_untold = true
  for one in pairs(self._hearers) do
    one:wake()
  end
end

--- Has the core tell of the loss.
local function expect(self, lock)
  if lock._news then
    return
  end
  lock._news = self._wakeups:expect(self)
  if not self._wakeups.core:arm(lock._core, "ended", lock._news) then
    self._wakeups:forget(lock._news)
    self.is_untold = true
  end
end

--- Has one:wake() called when there is a loss to tell, until stop_hearing(one). False,
-- and it won't be, if there is one already.
function Losses:hear(one)
  for lock in pairs(self.watched) do
    expect(self, lock)
  end
  if not self.is_untold then
    self._hearers[one] = true
  end
  return not self.is_untold
end

function Losses:stop_hearing(one)
  self._hearers[one] = nil
end

return Losses
