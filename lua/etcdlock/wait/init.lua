--- The one place where etcdlock waits. waits.lua describes a wait.
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local runtime = require "etcdlock.wait.runtime"
local waits = require "etcdlock.wait.waits"

-- Seconds that a blocking wait lasts at a time. In between Lua runs, so that a debug hook can
-- raise Ctrl-C.
local SLICE = 0.2
-- A blocking wait collects garbage after this many slices. Another handle of the same lock may be
-- garbage that still holds the lock: its collection releases the lock, and ends the wait.
local COLLECT_AFTER = 5

--- Returns the results of a protected call. An error ends the wait and is raised again: Ctrl-C, or
-- an error of an on_lost handler.
local function conclude(wait, ok, ...)
  if ok then
    return ...
  end
  waits.abandon(wait)
  error((...), 0)
end

--- Reports events to the program and calls the on_lost handlers of lost locks.
local function tell(wait)
  if wait.events then
    wait.events:deliver()
  end
  if wait.losses and wait.give_up and not coroutines.can_yield_in_pcall then
    -- Only this part is protected: the coroutine could not yield inside pcall.
    conclude(wait, pcall(wait.losses.call_due, wait.losses))
  elseif wait.losses then
    wait.losses:call_due()
  end
end

local function block(wait)
  local left, slices = wait.limit or math.huge, 0
  if wait.events then
    wait.events:deliver() -- most waits end within the first slice
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

-- <close> is a syntax error before Lua 5.4.
local with_close = _VERSION == "Lua 5.4" and load [[
  local function done(wait, ...)
    wait.has_returned = true
    return ...
  end
  return function(way, wait, loop)
    local guarded <close> = wait
    return done(guarded, way(guarded, loop))
  end
]]()

-- Calls loop.wait at least once, also for an event that has occurred: in nginx this binds a lock to
-- its request.
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
      -- A lock that is held, but not bound to its request, would stay held after the request.
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

local function wait_in(loop, wait)
  if not loop then
    return block(wait)
  elseif with_close then
    return with_close(yield, wait, loop)
  end
  return yield(wait, loop)
end

--- Waits in the event loop that runs here, or blocks if there is none. Returns what poll returns;
-- nil after the limit; false, message, code if the wait is impossible.
return function(wait)
  local loop = runtime.loop(wait.wakeups.chosen)
  if wait.give_up and (coroutines.can_yield_in_pcall or not loop) then
    return conclude(wait, pcall(wait_in, loop, wait))
  end
  return wait_in(loop, wait)
end
