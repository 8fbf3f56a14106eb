--- The kind of wait for the answer to what was `asked`, an object of the core; `arm` is the
-- core client's method that has its end told.
local wait_kind = require "etcdlock.wait.kind"

return function(arm)
  return wait_kind.new {
    hears_losses = true,
    poll = function(wait, seconds)
      return wait.asked:wait(seconds)
    end,
    arm = function(wait, number)
      local core_client = wait.wakeups.core
      return core_client[arm](core_client, wait.asked, number)
    end,
  }
end
