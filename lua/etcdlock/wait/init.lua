--- The one place where etcdlock waits.
--
-- A wait is a table with methods: poll(seconds), whose first result isn't nil once it is
-- over; arm(number), which has the core tell its end by a number (false: it is
-- over already); with wakeups, of its client; losses, those of which its client's
-- handlers shall hear meanwhile; events, its client's, to be told meanwhile; give_up(),
-- called when an error or the end of its coroutine ends it; limit in seconds; tie, to the
-- request that waits (host.lua); ends_early, with the worker that it is in (host.lua).
-- losses and the last four may be missing. While a loop waits, it has leave() there, by
-- which the loop forgets it.
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local host = require "etcdlock.wait.host"

-- Where nothing else runs, a wait is a row of short slices: between two of them
-- the interpreter runs, which is when Ctrl-C (a debug hook) gets its turn.
local SLICE = 0.2 -- seconds
-- When a wait for a lock has lasted so many of them, it may be that its own program
-- has dropped what stands in the way, and nobody else would have that collected.
local DROPPED_AFTER = 5

local function abandon(wait)
  if wait.leave then
    wait.leave()
  end
  if wait.give_up then
    wait:give_up()
  end
end

--- Passes on what a protected call gave; an error gives the wait up: Ctrl-C, or
-- one in an on_lost handler.
local function conclude(wait, ok, ...)
  if ok then
    return ...
  end
  abandon(wait)
  error((...), 0)
end

--- Tells of what has happened meanwhile; has the handlers of locks called that were lost.
local function tell(wait)
  wait.events:tell()
  if wait.losses and wait.give_up and not coroutines.crosses then
    -- yield itself can't be protected there.
    conclude(wait, pcall(wait.losses.tell, wait.losses))
  elseif wait.losses then
    wait.losses:tell()
  end
end

local function block(wait)
  local left, slices = wait.limit or math.huge, 0
  wait.events:tell() -- most are over within the first slice
  while true do
    local slice = left < SLICE and left or SLICE
    local a, b, c, d = wait:poll(slice)
    left = left - slice
    if a ~= nil or left <= 0 then
      return a, b, c, d
    end
    tell(wait)
    slices = slices + 1
    if slices == DROPPED_AFTER and wait.give_up then
      collectgarbage()
      collectgarbage()
    end
  end
end

-- Lua 5.4 can close a coroutine that waits. Compiled here because it is a syntax
-- error before.
local with_close = _VERSION == "Lua 5.4" and load [[
  local abandon = ...
  local guard = { __close = function(wait)
    if not wait.has_returned then
      abandon(wait)
    end
  end }
  local function done(wait, ...)
    wait.has_returned = true
    return ...
  end
  return function(way, wait, loop)
    local guarded <close> = setmetatable(wait, guard)
    return done(guarded, way(guarded, loop))
  end
]](abandon)

-- The loop comes first, even if the end is there already: a lock is tied to its
-- request by it.
local function yield(wait, loop)
  local ends = wait.limit and core.now() + wait.limit
  local a, b, c, d
  tell(wait)
  repeat
    local left = ends and ends - core.now()
    if left and left <= 0 then
      return wait:poll(0)
    end
    local message, code = loop.wait(wait, left)
    tell(wait)
    a, b, c, d = wait:poll(0)
    -- What is held, but not tied to whoever waited, would outlive him.
    if message and (a == nil or a and wait.give_up) then
      return false, message, code
    end
  until a ~= nil
  return a, b, c, d
end

local function wait_in(loop, wait)
  if not loop then
    return block(wait)
  elseif with_close then
    return with_close(yield, wait, loop)
  end
  return yield(wait, loop)
end

--- Waits, in the way of the event loop that runs here or, if there is none, by
-- blocking, and returns what poll returned; nil once the limit has passed;
-- false, message, code if waiting is impossible.
return function(wait)
  local loop = host.loop(wait.wakeups.chosen)
  if wait.give_up and (coroutines.crosses or not loop) then
    return conclude(wait, pcall(wait_in, loop, wait))
  end
  return wait_in(loop, wait)
end
