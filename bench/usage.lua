-- The CPU time of processes, by thread, and their memory.

local read_file = require "spec.support.harness.read_file"
local tasks = require "spec.support.programs.tasks"

local M = {}

local TICK = 1e6 / 100 -- µs of one clock tick, the unit of CPU times in /proc

--- Adds the CPU times in µs of the threads of the process |pid| to |times|, and returns |times|.
-- Its fields: `caller` for the main thread, `etcdlock-io` for the I/O threads, `others` for the
-- rest.
function M.thread_times(pid, times)
  for task, stat in pairs(tasks(pid, "stat")) do
    local name, rest = stat:match "%((.*)%) (.*)"
    local user, system = rest:match(("%S+ "):rep(11) .. "(%d+) (%d+)")
    local who = task == pid and "caller" or name == "etcdlock-io" and name or "others"
    times[who] = (times[who] or 0) + (user + system) * TICK
  end
  return times
end

--- Returns the CPU time in µs of the processes |pids|, with all their threads.
function M.time(pids)
  local sum = 0
  for _, pid in ipairs(pids) do
    for _, time in pairs(M.thread_times(pid, {})) do sum = sum + time end
  end
  return sum
end

--- Returns the resident memory of the process |pid| in bytes: `now`, and `most`, the peak.
function M.memory(pid)
  local status = assert(read_file(("/proc/%d/status"):format(pid)))
  local function bytes(field)
    return tonumber(status:match(field .. ":%s*(%d+) kB")) * 1024
  end
  return { now = bytes "VmRSS", most = bytes "VmHWM" }
end

return M
