-- What processes use: time by thread, and memory.

local read_file = require "spec.support.harness.read_file"
local uv = require "luv"

local M = {}

local TICK = 1e6 / 100 -- µs of what /proc counts a process's time in

--- Adds to |times| the µs that the threads of the process |pid| have been at work:
-- `caller` its first, `etcdlock-io` of that name, `others`. Returns |times|.
function M.thread_times(pid, times)
  local tasks = ("/proc/%d/task"):format(pid)
  for task in uv.fs_scandir_next, assert(uv.fs_scandir(tasks)) do
    local stat = read_file(("%s/%s/stat"):format(tasks, task)) or "" -- it may have ended
    local name, rest = stat:match "%((.*)%) (.*)"
    local user, system = (rest or ""):match(("%S+ "):rep(11) .. "(%d+) (%d+)")
    if user then
      local who = tonumber(task) == pid and "caller" or name == "etcdlock-io" and name or "others"
      times[who] = (times[who] or 0) + (user + system) * TICK
    end
  end
  return times
end

--- The bytes of memory of the process |pid|: `now`, and at `most`.
function M.memory(pid)
  local status = assert(read_file(("/proc/%d/status"):format(pid)))
  local function bytes(field)
    return tonumber(status:match(field .. ":%s*(%d+) kB")) * 1024
  end
  return { now = bytes "VmRSS", most = bytes "VmHWM" }
end

return M
