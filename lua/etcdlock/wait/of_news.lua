--- The kinds of waits for news that others may await, too: for `news` of a `subject`, an
-- object of the core, which knows who waits by their numbers. Whoever has waited calls
-- `disarm`. `arm` and `disarm` are the core client's methods for that.
local wait_kind = require "etcdlock.wait.kind"

return function(arm, disarm, poll)
  return wait_kind.new {
    hears_losses = true,
    ends_early = true,
    poll = poll,
    arm = function(wait, number)
      local core_client = wait.wakeups.core
      wait:disarm()
      wait.armed = number
      return core_client[arm](core_client, wait.subject, wait.news, number)
    end,
    disarm = function(wait)
      local core_client = wait.wakeups.core
      if wait.armed then
        core_client[disarm](core_client, wait.subject, wait.news, wait.armed)
      end
    end,
  }
end
