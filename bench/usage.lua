-- What processes use: time by thread, and memory.

local read_file = require "spec.support.harness.read_file"
local tasks = require "spec.support.programs.tasks"

local M = {}

local TICK = 1e6 / 100 -- µs of what /proc counts a process's time in

--- Adds to |times| the µs that the threads of the process |pid| have been at work:
-- `caller` its first, `etcdlock-io` of that name, `others`. Returns |times|.
function M.thread_times(pid, times)
  for task, stat in pairs(tasks(pid, "stat")) do
    local name, rest = stat:match "%((.*)%) (.*)"
    local user, system = rest:match(("%S+ "):rep(11) .. "(%d+) (%d+)")
    local who = task == pid and "caller" or name == "etcdlock-io" and name or "others"
    times[who] = (times[who] or 0) + (user + system) * TICK
  end
  return times
end

--- The µs that the processes |pids| have been at work, all of their threads.
function M.time(pids)
  local sum = 0
  for _, pid in ipairs(pids) do
    for _, time in pairs(M.thread_times(pid, {})) do sum = sum + time end
  end
  return sum
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
