-- wakings(pid) returns how often the I/O threads of the clients in the process `pid` have gone to
-- sleep.

local tasks = require "spec.support.programs.tasks"

return function(pid)
  local count = 0
  for _, status in pairs(tasks(pid, "status")) do
    if status:find "^Name:%s*etcdlock%-io" then
      count = count + status:match "\nvoluntary_ctxt_switches:%s*(%d+)"
    end
  end
  return count
end
