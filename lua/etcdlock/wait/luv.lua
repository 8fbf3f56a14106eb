--- Waits in luv. A poll handle watches the client's descriptor while coroutines wait, and its
-- callback resumes those that are woken. In a coroutine that was started before uv.run, luv's loop
-- does not run yet, so there connect needs loop = "luv".
local uv = require "luv"
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local loop = require "etcdlock.wait.loop"

-- woken: list of the waiters to resume. in_callback: true while the callback of the poll handle
-- delivers wake numbers.
local woken, in_callback = {}, false

--- Resumes the woken coroutines. If a coroutine raises an error, the other coroutines run first;
-- then the error is raised, which ends the program as in any other callback of luv.
local function resume_woken()
  local waiters, failure = woken, nil
  woken = {}
  for _, waiter in ipairs(waiters) do
    if not waiter.is_over and coroutine.status(waiter.thread) == "suspended" then
      local ok, err = coroutine.resume(waiter.thread)
      failure = failure or not ok and debug.traceback(waiter.thread, tostring(err))
    end
  end
  if failure then
    error(failure, 0)
  end
end

--- Arranges that a callback of the loop resumes the waiter. The waiter is never resumed at once:
-- any call of this library can deliver wake numbers, but it must not run other coroutines or raise
-- their errors.
local function wake(waiter)
  table.insert(woken, waiter)
  if #woken == 1 and not in_callback then
    local timer = uv.new_timer()
    timer:start(0, 0, function()
      timer:close()
      resume_woken()
    end)
  end
end

-- Tells whether luv's loop runs. luv before 1.44 cannot tell that.
local function is_running()
  return uv.loop_mode and uv.loop_mode() ~= nil
end

-- See Wakeups:watch in waits.lua. The handle watches a copy of the descriptor, because libuv
-- watches a descriptor only once, and the program may watch it, too, for its pending locks.
local function watch(fd, deliver)
  local copy = assert(core.copy_descriptor(fd))
  local handle = assert(uv.new_poll(copy))
  handle:start("r", function()
    in_callback = true
    deliver()
    in_callback = false
    resume_woken()
  end)
  return function()
    if not handle:is_closing() then
      handle:close(function() -- a handle that is only stopped keeps the loop running
        core.close_descriptor(copy)
      end)
    end
  end, function()
    return handle:is_closing()
  end
end

return loop.new {
  is_here = function(chosen)
    return (chosen == "luv" or not chosen and is_running()) and coroutines.running() ~= nil
  end,
  suspend = function(waiter)
    waiter.thread = coroutines.running()
    coroutine.yield()
  end,
  wake = wake,
  watch = watch,
}
