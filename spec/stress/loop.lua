-- The event loop of the stress program: it runs luv's loop and coroutines that sleep or wait for a
-- condition. It also measures for how long the program could not run.

local uv = require "luv"

local M = {
  longest = 0, -- seconds, the longest time for which the loop was late
  on_error = error, -- called with the traceback of a coroutine that failed
}

local TICK = 0.005 -- seconds from one look at the conditions to the next
local LATE = 0.1 -- seconds after which a tick counts as late

local tasks, waits, ticks = {}, {}, {}

-- Returns the time in seconds on a clock that only goes forward.
function M.now()
  return uv.hrtime() / 1e9
end

local function resume(thread, ...)
  local ok, failure = coroutine.resume(thread, ...)
  if not ok then M.on_error(debug.traceback(thread, tostring(failure))) end
end

-- Starts |body| in a coroutine. The coroutine runs at once, until its first wait.
function M.spawn(body)
  resume(coroutine.create(body))
end

-- Calls |run| after |seconds|, outside any coroutine.
function M.after(seconds, run)
  tasks[#tasks + 1] = { at = M.now() + seconds, run = run }
end

-- Calls |run| at each tick.
function M.each_tick(run)
  ticks[#ticks + 1] = run
end

-- Suspends the running coroutine for |seconds|.
function M.sleep(seconds)
  local thread = coroutine.running()
  M.after(seconds, function() resume(thread) end)
  coroutine.yield()
end

-- Suspends the running coroutine until is_ready() is true, or until the time |deadline|. Returns a
-- true value if is_ready() was true.
function M.await(is_ready, deadline)
  if is_ready() then return true end
  local thread = coroutine.running()
  waits[#waits + 1] = { thread = thread, is_ready = is_ready, deadline = deadline or math.huge }
  return coroutine.yield()
end

-- Removes from |list| the elements for which is_due(element) is true, and returns them in their
-- order.
local function take(list, is_due)
  local due, left = {}, 0
  for i = 1, #list do
    local element = list[i]
    list[i] = nil
    if is_due(element) then
      due[#due + 1] = element
    else
      left = left + 1
      list[left] = element
    end
  end
  return due
end

local last, stalled = nil, 0

-- Returns the seconds for which the loop was late since its start. This includes a delay that has
-- not ended, or that step has not counted yet, because luv calls its callbacks before step runs.
function M.stalled()
  local now = M.now()
  return stalled + math.max(0, now - (last or now) - LATE)
end

local function count_stall(now)
  local late = now - (last or now) - LATE
  last = now
  if late > 0 then
    stalled = stalled + late
    M.longest = math.max(M.longest, late)
  end
end

local function step()
  local now = M.now()
  count_stall(now)
  for _, task in ipairs(take(tasks, function(task) return task.at <= now end)) do task.run() end
  for _, wait in ipairs(take(waits, function(wait)
    wait.ready = wait.is_ready()
    return wait.ready or wait.deadline <= now
  end)) do
    resume(wait.thread, wait.ready)
  end
  for _, run in ipairs(ticks) do run() end
end

-- Runs the loop until is_over() is true, or for |seconds| at most. Returns whether it is over.
function M.run(is_over, seconds)
  local deadline, timer = M.now() + seconds, uv.new_timer()
  local tick = TICK * 1000
  timer:start(tick, tick, function() end)
  local looked = 0
  while not is_over() and M.now() < deadline do
    uv.run "once"
    if M.now() - looked >= TICK then
      looked = M.now()
      step()
    end
  end
  timer:close()
  return is_over()
end

return M
