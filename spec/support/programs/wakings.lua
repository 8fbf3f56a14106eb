-- wakings(pid): how often the I/O threads of the clients in the process `pid` have gone to sleep.

local read_file = require "spec.support.harness.read_file"
local uv = require "luv"

return function(pid)
  local tasks, count = ("/proc/%d/task"):format(pid), 0
  for task in uv.fs_scandir_next, assert(uv.fs_scandir(tasks)) do
    local status = read_file(("%s/%s/status"):format(tasks, task)) or ""
    if status:find "^Name:%s*etcdlock%-io" then
      count = count + status:match "\nvoluntary_ctxt_switches:%s*(%d+)"
    end
  end
  return count
end
