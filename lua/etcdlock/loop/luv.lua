--- luv: a poll handle watches the client's descriptor while coroutines wait;
-- its callback resumes them. luv can't tell whether its loop runs, so this is
-- only for clients that were connected with loop = "luv".
local uv = require "luv"
local protect = require "etcdlock.protect"

local M = {}

local LONGEST = 1e9 -- seconds that a timer can tell

function M.is_here(hub)
  return hub.loop == "luv" and protect.running() ~= nil
end

--- Resumes those who wait in these parks, each once. An error in one of them
-- ends the program, like that in any callback, but not before the others have
-- run.
local function resume(parks)
  local failure
  for _, park in ipairs(parks) do
    local thread = park.thread
    park.thread = nil
    if thread and coroutine.status(thread) == "suspended" then
      local ok, why = coroutine.resume(thread)
      failure = failure or not ok and debug.traceback(thread, tostring(why))
    end
  end
  if failure then
    error(failure, 0)
  end
end

local function resume_ready(watcher)
  local ready = watcher.ready
  watcher.ready = {}
  resume(ready)
end

--- Only ever from the loop itself: whoever calls Hub:deliver elsewhere must not
-- find the others running, and failing, in the middle of that call.
local function resume_soon(watcher, park)
  table.insert(watcher.ready, park)
  if #watcher.ready == 1 and not watcher.delivering then
    local timer = uv.new_timer()
    timer:start(0, 0, function()
      timer:close()
      resume_ready(watcher)
    end)
  end
end

local function unwatch(hub)
  hub.luv.handle:close()
  hub.luv = nil
  hub:on_close("luv", nil)
end

local function watch(hub)
  local watcher = { count = 0, ready = {}, handle = assert(uv.new_poll(hub.core:wake_fd())) }
  hub.luv = watcher
  hub:on_close("luv", function()
    unwatch(hub)
  end)
  watcher.handle:start("r", function()
    watcher.delivering = true
    hub:deliver()
    watcher.delivering = false
    resume_ready(watcher)
  end)
  return watcher
end

function M.wait(wait, seconds)
  local hub, park, watcher, timer = wait.hub, {}, nil, nil
  local id, message, code = hub:park(wait, function()
    resume_soon(watcher, park)
  end)
  if not id then
    return message, code
  end
  function wait.leave()
    wait.leave = nil
    local is_last = hub:leave(id, watcher)
    park.thread = nil -- whoever has resumed us
    if timer then
      timer:close()
    end
    -- Closed, not only stopped: the loop ends when nothing waits any more.
    if is_last and hub.luv == watcher then
      unwatch(hub)
    end
  end
  if wait.arm(id) then
    park.thread = protect.running()
    watcher = hub.luv or watch(hub)
    watcher.count = watcher.count + 1
    if seconds then
      timer = uv.new_timer()
      timer:start(math.ceil(math.min(seconds, LONGEST) * 1000), 0, function()
        resume { park }
      end)
    end
    coroutine.yield()
  end
  wait.leave()
end

return M
