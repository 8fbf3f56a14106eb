--- Event loops: which one runs here, and the code that all of them share.
--
-- To support another event loop, add a file that calls `new`, and its name in NAMES and `current`.
local core = require "etcdlock.core"

local M = {}

-- ---- the loop that runs here ----

-- Names of the Lua modules that a program loads to use the event loops.
local NAMES = { "cqueues", "copas", "luv" }

local loaded = package.loaded

local loops = {} -- name -> the result of `new`, once it is needed

-- Returns the loop with this name, whose module the program has loaded.
local function load_loop(name)
  loops[name] = loops[name] or require("etcdlock.wait." .. name)
  return loops[name]
end

--- For each event loop whose module the program has loaded, loads the module of etcdlock.
function M.load()
  for _, name in ipairs(NAMES) do
    if loaded[name] then
      load_loop(name)
    end
  end
end

-- Returns the loop that runs here; nil if there is none.
local function find(chosen)
  for _, name in ipairs(NAMES) do
    local loop = loaded[name] and load_loop(name)
    if loop and loop.is_here(chosen) then
      return loop
    end
  end
end

--- Returns a list of the values that connect's option `loop` allows. cqueues always knows whether
-- its loop runs.
function M.choices()
  return { "luv", "copas", "none" }
end

--- Returns the event loop to which the running coroutine yields when it waits. Returns nil if there
-- is none: a wait then blocks. Returns nil, message, code if a wait would stop the event loop,
-- because it runs here and the running coroutine cannot yield. `chosen` is connect's option `loop`,
-- or nil.
function M.current(chosen)
  if not (loaded.cqueues or loaded.copas or loaded.luv) then
    return nil -- most programs: this is called twice for each lock, so it must be cheap
  end
  local loop = chosen ~= "none" and find(chosen)
  if not loop then
    return nil
  elseif core.yieldable() then
    return loop
  end
  return nil, "waiting would stop the event loop here: a C function that cannot be left is on the"
    .. " stack, such as table.sort or, in Lua 5.1, pcall", "context"
end

--- Returns the end of a message about a wait that blocks the program. It names the option `loop` if
-- the program uses a copas that cannot tell whether its loop runs.
function M.hint(chosen)
  local copas = package.loaded.copas
  return copas and copas.running == nil and not chosen
    and '; with copas before version 4, connect with loop = "copas"' or ""
end

-- ---- waits in a loop ----

--- A Waiter represents a coroutine that waits. It has no reference to the wait or to the wait's
-- object. So if the program drops the coroutine, Lua collects the wait and its object, which ends
-- the wait.
--   loop       the event loop in which the coroutine waits
--   wakeups    the Wakeups of the client (waits.lua)
--   losses     the client's on_lost functions; nil or false if the wait does not hear losses
--   number     wake number of the wait
--   has_alarm  true: the core has set an alarm, which pushes the number when the limit is over
--   watcher    the Watcher (waits.lua) that polls the wake queue's descriptor for this coroutine;
--              nil until the coroutine suspends
--   is_woken   true: `wake` was called
--   is_over    true: the wait has ended
-- A loop may add fields of its own.
local Waiter = {}
Waiter.__index = Waiter

--- Wakes the coroutine, because its wake number was delivered or a lock was lost.
function Waiter:wake()
  if self.losses then -- here as well as in end_wait, which a dropped coroutine never calls
    self.losses:remove_waiter(self)
  end
  if not self.is_woken then
    self.is_woken = true
    self.loop.wake(self)
  end
end

--- Ends the wait, and returns the results of the core's end_wait: what `poll` (waits.lua) returns.
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

-- Yields to the event loop until the waiter is woken. `fd` is the client's wake descriptor.
local function suspend(waiter, fd)
  local loop = waiter.loop
  waiter.watcher = waiter.wakeups:watch(loop.which and loop.which() or loop, fd, loop.watch)
  if not waiter.is_woken then -- a new watcher may have delivered the number at once
    loop.suspend(waiter)
  end
end

--- Adds the function `wait` to `loop`, and returns `loop`. `loop` is a table with these functions:
--   is_here(chosen)     returns true if the running coroutine can wait by yielding to this loop.
--                       `chosen` is connect's option `loop`, or nil
--   which()             returns an object that identifies the loop, for a module that can run
--                       several loops in one program; may be missing
--   suspend(waiter)     yields until wake(waiter) is called; may return earlier
--   wake(waiter)        makes suspend(waiter) return; must neither yield nor raise an error
--   watch(fd, deliver)  see Wakeups:watch in waits.lua
function M.new(loop)
  --- Yields until the event of `wait` occurs, a lock is lost (if the wait hears losses), or
  -- `seconds` (nil: no limit) have passed; may return earlier. Returns nil, and then the results of
  -- the core's end_wait. If the wait is impossible, returns message, code.
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
    -- add_waiter returns false if on_lost functions are due: they are called before the wait goes
    -- on.
    if is_pending and not (losses and not losses:add_waiter(waiter)) then
      suspend(waiter, fd)
    end
    wait.waiter = nil
    return nil, waiter:end_wait(wait)
  end

  return loop
end

return M
