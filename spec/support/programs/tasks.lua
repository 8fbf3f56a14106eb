-- tasks(pid, file) returns the text of /proc/PID/task/TID/FILE for each thread of the process
-- `pid`: a table from thread id to text. It omits threads that have ended meanwhile. It always
-- reads the whole directory, because libuv leaks an entry of a directory that is not read to its
-- end.

local read_file = require "spec.support.harness.read_file"
local uv = require "luv"

return function(pid, file)
  local directory, texts = ("/proc/%d/task"):format(pid), {}
  local scan = assert(uv.fs_scandir(directory))
  for task in function() return uv.fs_scandir_next(scan) end do
    texts[tonumber(task)] = read_file(("%s/%s/%s"):format(directory, task, file))
  end
  return texts
end
