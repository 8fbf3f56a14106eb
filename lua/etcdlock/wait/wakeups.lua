--- The numbers by which the core tells one client's program what has come to its
-- end, and who is to be called then; and the descriptor that says so.
local host = require "etcdlock.wait.host"

local Wakeups = {}
Wakeups.__index = Wakeups

--- `chosen` is the loop that connect's option named, if it did; `socket_dir` its option.
function Wakeups.new(core_client, chosen, socket_dir)
  return setmetatable({
    core = core_client,
    chosen = chosen,
    socket_dir = socket_dir,
    _last = 0,
    _expected = {}, -- number -> who expects it
    _due = {}, -- numbers
    _watchers = setmetatable({}, { __mode = "k" }),
  }, Wakeups)
end

--- Has one:wake() called, once, when the number that is returned is told. It must
-- neither yield nor raise.
function Wakeups:expect(one)
  local number = self._last + 1
  self._last = number
  self._expected[number] = one
  return number
end

--- Nobody is to be woken by it any more.
function Wakeups:forget(number)
  self._expected[number] = nil
end

--- The descriptor that is readable while something is to be delivered | nil,
-- message, code.
function Wakeups:fd()
  return self.core:wake_fd()
end

--- Wakes those whose number was told; for when the descriptor is readable.
function Wakeups:deliver()
  for _, number in ipairs(self.core:woken()) do
    self._due[#self._due + 1] = number
  end
  if self._delivers then
    return -- whoever was woken called this; the one that woke it goes on
  end
  self._delivers = true
  local i = 1
  while self._due[i] do
    local number = self._due[i]
    local one = self._expected[number]
    self._expected[number] = nil
    if one then
      one:wake()
    end
    i = i + 1
  end
  self._due = {}
  self._delivers = false
end

-- ---- who watches the descriptor ----

local Watcher = {}
Watcher.__index = Watcher

--- One of those who wait with it doesn't any more. The last one ends it.
function Watcher:leave()
  self.count = self.count - 1
  if self.count == 0 and not self.is_over then
    self.is_over = true
    self.stop((self.wakeups:fd()))
  end
end

--- One more waits with `key`, which is the first one's to watch(fd, deliver): that
-- has deliver() called whenever the descriptor is readable, and returns what ends
-- that, a function which is given the descriptor and doesn't hold `key`. Returns
-- the watcher, which this one is to leave, and which doesn't hold it either: with the
-- key, whoever waits there may be dropped.
function Wakeups:watch(key, watch)
  local watcher = self._watchers[key]
  if not watcher or watcher.is_over then
    watcher = setmetatable({ wakeups = self, count = 0 }, Watcher)
    watcher.stop = watch(self:fd(), function()
      self:deliver()
    end)
    self._watchers[key] = watcher
  end
  watcher.count = watcher.count + 1
  return watcher
end

--- Closes the core client, and wakes everybody: their waits are over. Whoever
-- watches the descriptor hears of its end before.
function Wakeups:close(seconds)
  local is_ours = self.core:usable()
  for _, watcher in pairs(self._watchers) do
    if is_ours and not watcher.is_over then
      watcher.stop((self:fd()))
    end
    watcher.is_over = true
  end
  host.close(self.core, seconds)
  self:deliver()
end

return Wakeups
