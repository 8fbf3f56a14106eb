--- Event loops: which one runs here, and what all of them have in common.
--
-- Another loop is another file, which calls `new`, and a line in LOOPS.
local core = require "etcdlock.core"

local M = {}

-- ---- the loop that runs here ----

-- By the module that a program must have loaded for the loop to run. `is_named`: the module cannot
-- always tell whether its loop runs, so connect's option `loop` may name it.
local LOOPS = {
  { name = "cqueues" },
  { name = "copas", is_named = true },
  { name = "luv", is_named = true },
}

-- Returns the loop of an entry of LOOPS; nil if the program has not loaded its module.
local function load_loop(entry)
  if package.loaded[entry.name] and not entry.loop then
    entry.loop = require("etcdlock.wait." .. entry.name)
  end
  return entry.loop
end

--- Loads the modules of all loops that the program has loaded.
function M.load()
  for _, entry in ipairs(LOOPS) do
    load_loop(entry)
  end
end

-- Called several times for each lock.
local function find(chosen)
  for i = 1, #LOOPS do
    local loop = load_loop(LOOPS[i])
    if loop and loop.is_here(chosen) then
      return loop
    end
  end
end

--- Returns the values of connect's option `loop`, a list.
function M.choices()
  local names = { "none" }
  for _, entry in ipairs(LOOPS) do
    if entry.is_named then
      table.insert(names, 1, entry.name)
    end
  end
  return names
end

--- Returns the loop in which the running coroutine can wait; nil if a wait blocks. `chosen` is
-- connect's option `loop`, or nil.
function M.current(chosen)
  local loop = chosen ~= "none" and find(chosen)
  return loop and core.yieldable() and loop or nil
end

--- Returns message, code if a wait here would stop an event loop; nil otherwise.
function M.refusal(chosen)
  if chosen ~= "none" and not core.yieldable() and find(chosen) then
    return "waiting would stop the event loop here: a C function that cannot be left is on the"
      .. " stack, such as table.sort or, in Lua 5.1, pcall", "context"
  end
end

-- ---- waits in a loop ----

--- A coroutine that waits. It does not hold the wait or its object: if the program drops the
-- coroutine, Lua collects them, which ends the wait.
local Waiter = {}
Waiter.__index = Waiter

--- Resumes the coroutine, because its wake number was pushed or a lock was lost.
function Waiter:wake()
  if self.losses then -- also here, because a dropped coroutine never calls end_wait
    self.losses:remove_waiter(self)
  end
  if not self.is_woken then
    self.is_woken = true
    self.loop.wake(self)
  end
end

--- Ends the wait and returns its outcome, as poll of waits.lua does.
function Waiter:end_wait(wait)
  local wakeups = self.wakeups
  self.is_over = true
  wakeups:forget(self.number)
  if self.losses then
    self.losses:remove_waiter(self)
  end
  if self.watcher then
    self.watcher:leave()
  end
  return wakeups.core:end_wait(self.number, wait.object, wait.event, self.has_alarm)
end

local function suspend(waiter, fd)
  local loop = waiter.loop
  waiter.watcher = waiter.wakeups:watch(loop.which and loop.which() or loop, fd, loop.watch)
  if not waiter.is_woken then -- a watcher may deliver at once
    loop.suspend(waiter)
  end
end

--- Makes a loop of `loop`, a table with these fields:
--   is_here(chosen)     may the running coroutine wait by yielding to this loop? `chosen` is
--                       connect's option `loop`, or nil
--   which()             returns which of several such loops this is; may be missing
--   suspend(waiter)     yields until wake(waiter), or returns earlier
--   wake(waiter)        ends that; must neither yield nor raise
--   watch(fd, deliver)  see Wakeups:watch in waits.lua
-- suspend and wake may add fields to the waiter. waiter.is_over tells that the wait has ended.
function M.new(loop)
  --- Yields until the event of `wait` occurs, there are losses to tell, or `seconds` (nil: no
  -- limit) have passed; may return earlier. Returns nil and the results of the core's end_wait; or
  -- message, code if the wait is impossible.
  function loop.wait(wait, seconds)
    local wakeups, losses = wait.wakeups, wait.losses
    local number, is_pending, fd = wakeups.core:begin_wait(wait.object, wait.event, seconds)
    if not number then
      return is_pending, fd -- message, code
    end
    local waiter = setmetatable({
      loop = loop, wakeups = wakeups, losses = losses, number = number,
      has_alarm = is_pending and seconds ~= nil, is_woken = false, is_over = false,
    }, Waiter)
    wakeups:expect(number, waiter)
    wait.waiter = waiter
    -- A loss that is not told yet comes first.
    if is_pending and not (losses and not losses:add_waiter(waiter)) then
      suspend(waiter, fd)
    end
    wait.waiter = nil
    return nil, waiter:end_wait(wait)
  end

  return loop
end

return M
