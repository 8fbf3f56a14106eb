--- Returns the function with which the library waits for events of the core. waits.lua describes
-- the kinds of waits.
local CHUNK = require("etcdlock.check").CHUNK
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local waits = require "etcdlock.wait.waits"

-- Seconds for which one slice of a blocking wait calls into C. Between two slices Lua code runs, so
-- that the debug hook of the interpreter can raise the error of Ctrl-C.
local SLICE = 0.2
-- A blocking wait collects garbage after this many slices if its `may_collect` is true, because the
-- program may have dropped a handle that still holds the same lock. The collection of the handle
-- releases the lock, and so ends the wait.
local COLLECT_AFTER = 5

local FOREVER = math.huge

-- Passes events to the program's `log` function. If the wait hears losses, also calls the on_lost
-- functions of lost locks.
local function tell(client, kind)
  if client._events.is_heard then
    client._events:deliver()
  end
  if kind.hears_losses then
    client._loss_listeners:call_due()
  end
end

-- ---- without an event loop ----

-- Waits up to `limit` seconds (nil: no limit), and blocks. Returns the results of the object's
-- method kind.method.
local function block(client, kind, object, limit, may_collect)
  local poll, left, slices = object[kind.method], limit or FOREVER, 0
  if client._events.is_heard then
    client._events:deliver() -- here too, because most waits end within the first slice
  end
  while true do
    local slice = left < SLICE and left or SLICE
    local a, b, c, d = poll(object, slice)
    if a then
      return a, b, c, d
    elseif a == false then
      return client:_explain(a, b, c, d)
    end
    left = left - slice
    if left <= 0 then
      return nil
    end
    tell(client, kind)
    slices = slices + 1
    if slices == COLLECT_AFTER and may_collect then
      collectgarbage()
      collectgarbage()
    end
  end
end

-- Gets the results of pcall. If the call has succeeded, returns its results. Otherwise (Ctrl-C, an
-- error of an on_lost function) gives the object up and raises the error again.
local function conclude(client, kind, object, binding, ok, ...)
  if ok then
    return ...
  end
  kind.give_up(client, object, binding)
  error((...), 0)
end

-- ---- in an event loop ----

-- As `conclude`, for a wait in an event loop.
local function conclude_wait(wait, ok, ...)
  if ok then
    return ...
  end
  waits.abandon(wait)
  error((...), 0)
end

local function tell_in_loop(wait)
  if wait.give_up and not coroutines.can_yield_in_pcall then
    -- Only `tell` runs inside pcall. The rest of the wait must be able to yield, and Lua 5.1 cannot
    -- yield inside pcall.
    conclude_wait(wait, pcall(tell, wait.client, wait))
  else
    tell(wait.client, wait)
  end
end

-- Calls way(wait, loop). From Lua 5.4 on, also ends the wait if an error is raised or the coroutine
-- is closed meanwhile; earlier versions cannot close coroutines. The code is a string, because
-- <close> is a syntax error in those versions.
local call_and_close = coroutine.close and load([[
  local function done(wait, ...)
    wait.has_returned = true
    return ...
  end
  return function(way, wait, loop)
    local guarded <close> = wait
    return done(guarded, way(guarded, loop))
  end
]], CHUNK)() or function(way, wait, loop)
  return way(wait, loop)
end

-- Waits in the event loop. Returns the results of the wait; nil if the limit is over; or false,
-- message, code if the wait is impossible. For a lock, unless the limit is 0, calls loop.wait at
-- least once, even if the event has occurred, because in nginx this call binds the lock to its
-- request.
local function yield(wait, loop)
  local left = wait.limit
  local ends = left and core.now() + left
  local message, a, b, c, d
  tell_in_loop(wait)
  if not wait.give_up then
    a, b, c, d = wait:poll(0) -- a lock that was handed off is released already
  end
  while a == nil and (not left or left > 0) do
    message, a, b, c, d = loop.wait(wait, left)
    tell_in_loop(wait)
    if message then
      local code = a
      a, b, c, d = wait:poll(0)
      -- The wait is impossible, but its event may have occurred; then its results are returned.
      -- Exception: a granted lock (only the wait for a lock has give_up). In nginx it is not bound
      -- to its request, and would stay held after the end of the request, so the call must fail.
      if a == nil or a and wait.give_up then
        return false, message, code
      end
    end
    left = ends and ends - core.now()
  end
  if a == nil then
    return wait:poll(0)
  end
  return a, b, c, d
end

--- Waits for the event `kind` of `object`, up to `limit` seconds (nil: no limit): in the event loop
-- `loop`, the result of runtime.loop; nil: blocks. `binding` is the lock's result of runtime.bind;
-- `may_collect`: see COLLECT_AFTER. Returns the results of the object's method kind.method. If the
-- limit is over, the first result is nil. If the wait is impossible, returns false, message, code.
return function(client, kind, loop, object, limit, binding, may_collect)
  if not loop then
    if kind.give_up then
      return conclude(client, kind, object, binding,
        pcall(block, client, kind, object, limit, may_collect))
    end
    return block(client, kind, object, limit)
  end
  local wait = setmetatable({
    client = client, object = object, limit = limit, binding = binding,
    wakeups = client._wakeups, losses = kind.hears_losses and client._loss_listeners,
  }, kind)
  if kind.give_up and coroutines.can_yield_in_pcall then
    return client:_explain(conclude_wait(wait, pcall(call_and_close, yield, wait, loop)))
  end
  return client:_explain(call_and_close(yield, wait, loop))
end
