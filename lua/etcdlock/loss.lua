--- The loss of a lock: why it isn't held, and how its holder hears of it. Methods of
-- a lock; who hears of which losses when is in losses.lua.
-- @submodule lock
local check = require "etcdlock.check"
local host = require "etcdlock.wait.host"
local numbers = require "etcdlock.numbers"
local of_news = require "etcdlock.wait.of_news"
local quote = require("etcdlock.characters").quote

local M = {}

-- Is this another process than the one that has the lock? message, code.
function M:forked()
  local usable, message, code = self._client._core:usable()
  if not usable and code == "forked" then
    return message, code
  end
end

-- Why it isn't held: message, code. For lock.lua and guarded.lua.
function M:not_held()
  local message, code = self:_forked()
  if code then
    return message, code
  end
  local loss, why = self._core:loss()
  if loss == "closed" then
    return string.format("lock %s: the client was closed", quote(self:name())), "closed"
  elseif loss then
    return string.format("lock %s was lost: %s", quote(self:name()), why), "lost"
  elseif self._core:is_outlived() then
    local text = "lock %s ended with the request that held it"
    return text:format(quote(self:name())), "not_held"
  end
  return string.format("lock %s is not held", quote(self:name())), "not_held"
end

--- Has a function called once if the lock is lost. It never runs by itself or on another
-- thread, only inside a later call of the same client: `held` or `check` of a lost lock, any
-- call that takes a lock, a wait that lasts (but not that of `unlock`). The functions of all
-- lost locks run in that call, in the order of their locks' first `on_lost`. If some raise an
-- error, the call raises the first one after all have run. If the lock is lost already, fn is
-- called at once.
-- @function lock:on_lost
-- @tparam listener fn called with the lock and the reason
-- @treturn true
-- @fail not_held
-- @raise for a wrong type
function M:on_lost(fn)
  check.callable("lock:on_lost", "fn", fn)
  if self._count == 0 then
    return nil, string.format("lock %s is not held", quote(self:name())), "not_held"
  end
  self._client._losses:watch(self, fn)
  return true
end

-- The wait for the end of the hold of a `lock`, for which several may wait.
local Ended = of_news("arm", "disarm", function(wait, seconds)
  wait.lock:_left() -- notices an expiry of this moment
  -- Not of `subject`, which may be another lock's by now.
  return wait.lock._core:wait_ended(seconds) or nil
end)

local arm = Ended.arm

function Ended.arm(wait, number)
  return wait.lock._count > 0 and arm(wait, number)
end

local function await_loss(self, timeout)
  local wait = { subject = self._core, news = "ended", lock = self, limit = timeout }
  local ended, message, code = self._client:_await(Ended, wait)
  wait:disarm()
  return ended, message, code
end

--- Waits for the lock to be lost.
-- @function lock:wait_lost
-- @tparam[opt] seconds timeout how long at most; nil: for ever
-- @treturn reason
-- @fail timeout, not_held, closed, forked, context, premature
-- @raise for a wrong type
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
    local text = "lock %s was not lost within %s s"
    return nil, text:format(quote(self:name()), numbers.format("%g", timeout)), "timeout"
  end
  self._client._losses:tell()
  message, code = self:_not_held()
  if code == "lost" then
    return (self._core:loss())
  end
  return nil, message, code
end

return M
