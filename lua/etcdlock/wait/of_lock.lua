--- The waits for what becomes of a lock of the core: `core_lock`, which is tied by `tie`.
local host = require "etcdlock.wait.host"
local wait_kind = require "etcdlock.wait.kind"

local M = {}

--- Whether it is held.
M.Decided = wait_kind.new {
  hears_losses = true,
  ends_early = true,
  poll = function(wait, seconds)
    return wait.core_lock:wait(seconds)
  end,
  arm = function(wait, number)
    return wait.wakeups.core:arm(wait.core_lock, "decided", number)
  end,
  give_up = function(wait)
    wait.core_lock:release()
    host.untie(wait.wakeups, wait.tie)
  end,
}

--- That etcd has heard of its release.
M.Released = wait_kind.new {
  poll = function(wait, seconds)
    return wait.core_lock:wait_released(seconds)
  end,
  arm = function(wait, number)
    return wait.wakeups.core:arm(wait.core_lock, "released", number)
  end,
}

return M
