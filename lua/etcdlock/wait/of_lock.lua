--- The waits for what becomes of one lock.

-- By what the core asks for it, the method that waits for it.
local METHODS = { decided = "wait", released = "wait_released" }

local function poll(wait, seconds)
  local core_lock = wait.core_lock
  return core_lock[wait.method](core_lock, seconds)
end

local function arm(wait, number)
  return wait.wakeups.core:arm(wait.core_lock, wait.news, number)
end

--- `wait`, whose other fields are there, as one for the `news` of a lock of the core: that
-- it is "decided" whether it is held, or that it is "released".
return function(core_lock, news, wait)
  wait.core_lock, wait.news, wait.method = core_lock, news, METHODS[news]
  wait.poll, wait.arm = poll, arm
  return wait
end
