--- The numbers by which the core tells one client's program what has come to its
-- end, and who is to be called then; and the descriptor that says so.
local Wakeups = {}
Wakeups.__index = Wakeups

--- `chosen` is the loop that connect's option named, if it did; `socket_dir` its option.
function Wakeups.new(core_client, chosen, socket_dir)
  return setmetatable({
    core = core_client,
    chosen = chosen,
    socket_dir = socket_dir,
    _last = 0,
    _calls = {}, -- number -> function
    _due = {}, -- numbers
    _watchers = setmetatable({}, { __mode = "k" }),
  }, Wakeups)
end

--- Has call() called, once, when the number that is returned is told. It must
-- neither yield nor raise.
function Wakeups:expect(call)
  self._last = self._last + 1
  self._calls[self._last] = call
  return self._last
end

--- Nothing is to be called any more.
function Wakeups:forget(number)
  self._calls[number] = nil
end

--- The descriptor that is readable while something is to be delivered | nil,
-- message, code.
function Wakeups:fd()
  return self.core:wake_fd()
end

--- Calls those whose number was told; for when the descriptor is readable.
function Wakeups:deliver()
  for _, number in ipairs(self.core:woken()) do
    self._due[#self._due + 1] = number
  end
  if self._delivers then
    return -- whoever was called called this; the one that called it goes on
  end
  self._delivers = true
  local i = 1
  while self._due[i] do
    local call = self._calls[self._due[i]]
    self._calls[self._due[i]] = nil
    if call then
      call()
    end
    i = i + 1
  end
  self._due = {}
  self._delivers = false
end

-- ---- who watches the descriptor ----

--- One more waits with `key`, which is the first one's to watch(fd, deliver): that
-- has deliver() called whenever the descriptor is readable, and returns what ends
-- that, a function which is given the descriptor and doesn't hold `key`. Returns
-- what takes this one off again, and doesn't hold it either: with the key, whoever
-- waits there may be dropped. The last one ends it.
function Wakeups:watch(key, watch)
  local watcher = self._watchers[key]
  if not watcher or watcher.is_over then
    watcher = { count = 0 }
    watcher.stop = watch(self:fd(), function()
      self:deliver()
    end)
    self._watchers[key] = watcher
  end
  watcher.count = watcher.count + 1
  return function()
    watcher.count = watcher.count - 1
    if watcher.count == 0 and not watcher.is_over then
      watcher.is_over = true
      watcher.stop((self:fd()))
    end
  end
end

--- Closes the core client, and calls everybody: their waits are over. Whoever
-- watches the descriptor hears of its end before.
function Wakeups:close(seconds)
  local is_ours = self.core:usable()
  for _, watcher in pairs(self._watchers) do
    if is_ours and not watcher.is_over then
      watcher.stop((self:fd()))
    end
    watcher.is_over = true
  end
  self.core:close(seconds)
  self:deliver()
end

return Wakeups
