--- luv: a poll handle watches the client's descriptor while coroutines wait, and its callback
-- resumes them. luv cannot tell whether its loop runs, so this loop needs loop = "luv".
local uv = require "luv"
local coroutines = require "etcdlock.coroutines"
local loop = require "etcdlock.wait.loop"

local woken, in_callback = {}, false -- the waiters to resume, a list

--- Resumes the woken coroutines. An error in one of them ends the program, as in any callback of
-- luv, but only after the others have run.
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

--- Resumes the waiter from a callback of the loop, never at once. Any call of this library can
-- deliver wake numbers, and such a call must not run other coroutines, or raise their errors.
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

return loop.new {
  is_here = function(chosen)
    return chosen == "luv" and coroutines.running() ~= nil
  end,
  suspend = function(waiter)
    waiter.thread = coroutines.running()
    coroutine.yield()
  end,
  wake = wake,
  watch = function(fd, deliver)
    local handle = assert(uv.new_poll(fd))
    handle:start("r", function()
      in_callback = true
      deliver()
      in_callback = false
      resume_woken()
    end)
    return function()
      handle:close() -- a handle that is only stopped keeps the loop running
    end
  end,
}
