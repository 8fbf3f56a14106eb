--- Returns the function with which the library waits for events of the core. waits.lua describes
-- the fields of a wait.
local CHUNK = require("etcdlock.check").CHUNK
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local runtime = require "etcdlock.wait.runtime"
local waits = require "etcdlock.wait.waits"

-- Seconds for which one slice of a blocking wait calls into C. Between two slices Lua code runs, so
-- that the debug hook of the interpreter can raise the error of Ctrl-C.
local SLICE = 0.2
-- A blocking wait collects garbage after this many slices, because the program may have dropped a
-- handle that still holds the same lock. The collection of the handle releases the lock, and so
-- ends the wait.
local COLLECT_AFTER = 5

--- Gets the results of pcall. If the call has succeeded, returns its results. Otherwise (Ctrl-C, an
-- error of an on_lost function) ends the wait and raises the error again.
local function conclude(wait, ok, ...)
  if ok then
    return ...
  end
  waits.abandon(wait)
  error((...), 0)
end

--- Passes events to the program's `log` function, and calls the on_lost functions of lost locks.
local function tell(wait)
  if wait.events then
    wait.events:deliver()
  end
  if wait.losses and wait.give_up and not coroutines.can_yield_in_pcall then
    -- Only the on_lost functions run inside pcall. The rest of the wait must be able to yield, and
    -- Lua 5.1 cannot yield inside pcall.
    conclude(wait, pcall(wait.losses.call_due, wait.losses))
  elseif wait.losses then
    wait.losses:call_due()
  end
end

-- Waits as `yield` does, but blocks.
local function block(wait)
  local left, slices = wait.limit or math.huge, 0
  if wait.events then
    wait.events:deliver() -- here too, because most waits end within the first slice, before `tell`
  end
  while true do
    local slice = left < SLICE and left or SLICE
    local a, b, c, d = wait:poll(slice)
    left = left - slice
    if a ~= nil or left <= 0 then
      return a, b, c, d
    end
    tell(wait)
    slices = slices + 1
    if slices == COLLECT_AFTER and wait.may_collect then
      collectgarbage()
      collectgarbage()
    end
  end
end

-- Calls way(wait, loop), and ends the wait if the coroutine is closed meanwhile. Nil before Lua
-- 5.4: older Luas cannot close coroutines. The code is a string, because <close> is a syntax error
-- in older Luas.
local with_close = coroutine.close and load([[
  local function done(wait, ...)
    wait.has_returned = true
    return ...
  end
  return function(way, wait, loop)
    local guarded <close> = wait
    return done(guarded, way(guarded, loop))
  end
]], CHUNK)()

-- Waits in the event loop. Returns the results of the wait's `poll`; nil if the limit is over; or
-- false, message, code if the wait is impossible. Unless the limit is 0, calls loop.wait at least
-- once, even if the event has occurred, because in nginx this call binds a lock to its request.
local function yield(wait, loop)
  local left = wait.limit
  local ends = left and core.now() + left
  tell(wait)
  while not left or left > 0 do
    local message, a, b, c, d = loop.wait(wait, left)
    tell(wait)
    if message then
      local code = a
      a, b, c, d = wait:poll(0)
      -- The wait is impossible, but its event may have occurred. Exception: a granted lock. (Only
      -- the wait for a lock has give_up.) The lock is not bound to its request, and would stay held
      -- after the end of the request, so the call must fail.
      if a == nil or a and wait.give_up then
        return false, message, code
      end
    end
    if a ~= nil then
      return a, b, c, d
    end
    left = ends and ends - core.now()
  end
  return wait:poll(0)
end

-- Waits in the event loop `loop`; nil: blocks.
local function wait_in(loop, wait)
  if not loop then
    return block(wait)
  elseif with_close then
    return with_close(yield, wait, loop)
  end
  return yield(wait, loop)
end

--- Waits in the running event loop; without one, blocks. Returns the results of the wait's `poll`.
-- If the limit is over, the first result is nil. If the wait is impossible, returns false, message,
-- code.
return function(wait)
  local loop = runtime.loop(wait.wakeups.chosen)
  if wait.give_up and (coroutines.can_yield_in_pcall or not loop) then
    return conclude(wait, pcall(wait_in, loop, wait))
  end
  return wait_in(loop, wait)
end
