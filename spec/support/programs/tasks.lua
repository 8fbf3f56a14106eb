-- tasks(pid, file): what /proc says in `file` of each thread of the process `pid`, by its
-- number; nothing of one that has ended meanwhile.
-- (Looks at all: libuv loses the last entry of a directory that isn't read to its end, which
-- the leak sanitizer reports.)

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
