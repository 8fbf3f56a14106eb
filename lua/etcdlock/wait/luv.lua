--- luv: a poll handle watches the client's descriptor while coroutines wait;
-- its callback resumes them. luv can't tell whether its loop runs, so this is
-- only for clients that were connected with loop = "luv".
local uv = require "luv"
local coroutines = require "etcdlock.coroutines"
local loop = require "etcdlock.wait.loop"

local woken, in_callback = {}, false

--- An error in one of them ends the program, like that in any callback, but not
-- before the others have run.
local function resume_woken()
  local parks, failure = woken, nil
  woken = {}
  for _, park in ipairs(parks) do
    if not park.is_over and coroutine.status(park.thread) == "suspended" then
      local ok, why = coroutine.resume(park.thread)
      failure = failure or not ok and debug.traceback(park.thread, tostring(why))
    end
  end
  if failure then
    error(failure, 0)
  end
end

--- Only ever from the loop itself: whoever delivers elsewhere must not find the
-- others running, and failing, in the middle of that call.
local function wake(park)
  table.insert(woken, park)
  if #woken == 1 and not in_callback then
    local timer = uv.new_timer()
    timer:start(0, 0, function()
      timer:close()
      resume_woken()
    end)
  end
end

return loop {
  is_here = function(chosen)
    return chosen == "luv" and coroutines.running() ~= nil
  end,
  suspend = function(park)
    park.thread = coroutines.running()
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
      handle:close() -- not only stopped: the loop ends when nothing waits any more
    end
  end,
}
