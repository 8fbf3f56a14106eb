--- The one place where etcdlock waits.
--
-- A wait is an object of a kind (kind.lua), with methods: poll(seconds), whose first result
-- isn't nil once it is over; arm(number), which has the core tell its end by a number (false:
-- it is over already); give_up(), called when an error or the end of its coroutine ends it;
-- with its client's wakeups; losses, of which those who wait for them hear meanwhile, where
-- the kind hears_losses; events, which are told meanwhile; limit in seconds; may_collect, what
-- was dropped, while it blocks; tie, to the request that waits (host.lua); ends_early, with
-- the worker that it is in (host.lua). give_up, losses and the last four may be missing. While
-- a loop has it, `park` is what the loop knows of it (loop.lua).
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local host = require "etcdlock.wait.host"
local wait_kind = require "etcdlock.wait.kind"

-- Where nothing else runs, a wait is a row of short slices: between two of them
-- the interpreter runs, which is when Ctrl-C (a debug hook) gets its turn.
local SLICE = 0.2 -- seconds
-- When a wait for a lock has lasted so many of them, it may be that its own program
-- has dropped what stands in the way, and nobody else would have that collected.
local DROPPED_AFTER = 5

--- Passes on what a protected call gave; an error gives the wait up: Ctrl-C, or
-- one in an on_lost handler.
local function conclude(wait, ok, ...)
  if ok then
    return ...
  end
  wait_kind.abandon(wait)
  error((...), 0)
end

--- Tells of what has happened meanwhile; has the handlers of locks called that were lost.
local function tell(wait)
  wait.events:deliver()
  if wait.losses and wait.give_up and not coroutines.can_yield_in_pcall then
    -- yield itself can't be protected there.
    conclude(wait, pcall(wait.losses.call_due, wait.losses))
  elseif wait.losses then
    wait.losses:call_due()
  end
end

local function block(wait)
  local left, slices = wait.limit or math.huge, 0
  wait.events:deliver() -- most are over within the first slice
  while true do
    local slice = left < SLICE and left or SLICE
    local a, b, c, d = wait:poll(slice)
    left = left - slice
    if a ~= nil or left <= 0 then
      return a, b, c, d
    end
    tell(wait)
    slices = slices + 1
    if slices == DROPPED_AFTER and wait.may_collect then
      collectgarbage()
      collectgarbage()
    end
  end
end

-- What is closed with its coroutine is declared so, which is a syntax error before Lua 5.4.
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
  if wait.give_up and (coroutines.can_yield_in_pcall or not loop) then
    return conclude(wait, pcall(wait_in, loop, wait))
  end
  return wait_in(loop, wait)
end
