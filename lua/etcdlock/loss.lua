--- The loss of a lock: why it isn't held, and how its holder hears of it. Methods of
-- a lock; who hears of which losses when is in losses.lua.
local check = require "etcdlock.check"
local host = require "etcdlock.wait.host"

local M = {}

--- Is this another process than the one that has the lock? message, code.
function M:forked()
  local usable, message, code = self._client._core:usable()
  if not usable and code == "forked" then
    return message, code
  end
end

--- Why it isn't held: message, code. For lock.lua and guarded.lua.
function M:not_held()
  local message, code = self:_forked()
  if code then
    return message, code
  end
  local loss, why
  if not self._has_left then
    loss, why = self._core:loss()
  end
  if loss == "closed" then
    return string.format("lock %q: the client was closed", self._name), "closed"
  elseif loss then
    return string.format("lock %q was lost: %s", self._name, why), "lost"
  elseif self._core:is_outlived() then
    return string.format("lock %q ended with the request that held it", self._name), "not_held"
  end
  return string.format("lock %q is not held", self._name), "not_held"
end

--- Has fn(lock, reason) called once if the lock is lost: "expired", "revoked",
-- "deleted", "replaced", "max_hold" or "cluster_changed". It runs inside a later
-- call of this client (held or check of a lost lock, asking for a lock, any wait
-- but unlock's), never by itself and never on another thread; at once if the lock
-- is lost already. An error in it is raised from that call, after the other
-- handlers have run. A lease that ends may be seen as "deleted" first: its keys go
-- with it.
-- @return true | nil, message, code: "not_held"
function M:on_lost(fn)
  check.callable("lock:on_lost", "fn", fn)
  if self._count == 0 then
    return nil, string.format("lock %q is not held", self._name), "not_held"
  end
  self._client._losses:watch(self, fn)
  return true
end

local function await_loss(self, timeout)
  local client = self._client
  local armed -- one of several, perhaps, that wait for this
  local function disarm()
    if armed then
      client._core:disarm(self._core, "ended", armed)
    end
  end
  local ended, message, code = client:_await {
    poll = function(seconds)
      self:_left() -- notices an expiry of this moment
      return self._core:wait_ended(seconds) or nil
    end,
    arm = function(number)
      disarm()
      armed = number
      return client._core:arm(self._core, "ended", number)
    end,
    losses = client._losses,
    limit = timeout,
    ends_early = true,
  }
  disarm()
  return ended, message, code
end

--- Waits up to `timeout` seconds (nil: for ever) for the lock to be lost.
-- @return the reason | nil, message, code: "timeout", "not_held", "closed",
--   "premature" (in a timer of a worker of nginx that exits)
function M:wait_lost(timeout)
  check.seconds("lock:wait_lost", "timeout", timeout)
  local message, code = self:_forked()
  if not code then
    message, code = host.refusal(self._client._wakeups.chosen)
  end
  if code then
    return nil, message, code
  end
  local ended
  ended, message, code = await_loss(self, timeout)
  if ended == false then
    return nil, message, code
  elseif not ended then
    return nil, string.format("lock %q was not lost within %g s", self._name, timeout), "timeout"
  end
  self._client._losses:tell()
  message, code = self:_not_held()
  if code == "lost" then
    return (self._core:loss())
  end
  return nil, message, code
end

return M
