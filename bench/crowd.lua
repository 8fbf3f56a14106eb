-- A crowd: the processes of one entrant that do the work of a row. They work only during windows,
-- which crowd:window starts. README.md describes the messages between a process and this program.

local json = require "dkjson"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"

local Crowd = {}
Crowd.__index = Crowd

local START = 90 -- seconds to wait until all processes are ready
local PATIENCE = 150 -- seconds to wait until all processes have answered to a window
local TICK = 1e6 / 100 -- µs of one clock tick, the unit of CPU times in /proc

-- Returns the job, the last argument of the programs of |entrant| in |row|. `marks` is in memory if
-- possible, because only the server should use the disk during a measurement.
local function job_of(entrant, row, server)
  local job = {
    work = "lock", endpoint = server.endpoint, socket = server.socket,
    owners = row.owners, names = row.names,
    hold = row.hold or 0, prefix = row.id .. "/" .. entrant.label:gsub("%W", ""),
  }
  if row.processes > 1 then
    job.marks = temporary.directory(uv.fs_stat "/dev/shm" and "/dev/shm")
  end
  for field, value in pairs(entrant.job or {}) do job[field] = value end
  return job
end

local function now()
  return uv.hrtime() / 1e9
end

-- Waits until |child| prints a line that matches |pattern|. Returns what the pattern captures. If
-- the line does not come before the time |deadline|, or |child| ends, returns nil and the first
-- line that |child| wrote to standard error, or "no answer".
local function answer_of(child, pattern, deadline)
  local ok, line = pcall(child.expect, child, pattern, math.max(deadline - now(), 0))
  if ok then return line end
  local why = child:errors():match "[^\n]+" or "no answer"
  return nil, (why:gsub("^.-%.lua:%d+: ", ""))
end

--- Starts the processes of |entrant| for |row| with |server| (see servers.lua), and waits until all
-- are ready. Returns the crowd; its `versions` is what the processes say about themselves, names
-- and versions with commas between them. If a process does not become ready, returns nil and the
-- reason.
function Crowd.start(entrant, row, server)
  local self = setmetatable({ children = {}, server = server }, Crowd)
  local job, argv = job_of(entrant, row, server), {}
  for i, word in ipairs(entrant.argv) do argv[i] = word end
  argv[#argv + 1] = json.encode(job)
  for i = 1, row.processes do self.children[i] = proc.talk(argv) end
  local deadline = now() + START
  for _, child in ipairs(self.children) do
    local versions, why = answer_of(child, "^ready ?(.*)$", deadline)
    if not versions then
      self:stop()
      return nil, why
    end
    self.versions = versions
  end
  return self
end

-- ---- what a window costs ------------------------------------------------------------

-- Returns the CPU time in µs of the processes |pids|, and of their children that have ended.
local function cpu_time(pids)
  local ticks = 0
  for _, pid in ipairs(pids) do
    local stat = read_file(("/proc/%d/stat"):format(pid)) or ""
    local times = stat:match("%) " .. ("%S+ "):rep(11) .. "(%d+ %d+ %d+ %d+)")
    for time in (times or ""):gmatch "%d+" do ticks = ticks + time end
  end
  return ticks * TICK
end

-- Returns the memory in MB of the processes |pids|. |field|: VmRSS now, VmHWM the peak.
local function memory(pids, field)
  local kilobytes = 0
  for _, pid in ipairs(pids) do
    local status = read_file(("/proc/%d/status"):format(pid)) or ""
    kilobytes = kilobytes + (status:match(field .. ":%s*(%d+) kB") or 0)
  end
  return kilobytes / 1024
end

-- Returns the process ids of the crowd.
local function pids_of(self)
  local pids = {}
  for i, child in ipairs(self.children) do pids[i] = child.process.pid end
  return pids
end

-- ---- a window ---------------------------------------------------------------------------

-- |holds| are lists { process, got, left }, times in seconds on a clock that all processes share.
-- Returns the ms from the end of each hold to the begin of the next hold by another process.
local function handoffs(holds)
  local times = {}
  table.sort(holds, function(a, b) return a[2] < b[2] end)
  for i = 2, #holds do
    local before, after = holds[i - 1], holds[i]
    if before[1] ~= after[1] then times[#times + 1] = (after[2] - before[3]) * 1000 end
  end
  return times
end

-- Returns a table from each field of the |answers| of all processes to the list of its values;
-- `handoff` is the list of handoffs().
local function figures_of(answers)
  local figures, holds = {}, {}
  for process, answer in ipairs(answers) do
    for _, hold in ipairs(answer.holds or {}) do
      holds[#holds + 1] = { process, hold[1], hold[2] }
    end
    answer.holds = nil
    for field, value in pairs(answer) do
      figures[field] = figures[field] or {}
      for _, one in ipairs(type(value) == "table" and value or { value }) do
        table.insert(figures[field], one)
      end
    end
  end
  figures.handoff = handoffs(holds)
  return figures
end

-- Returns the sample of one window, computed from the answers of all processes:
--   rate     `pairs` (of lock and unlock) per second; the time is |seconds|, or, if |seconds| is
--            nil, the time of the slowest process
--   least    pairs of the process with the fewest, divided by the mean over the processes
--   broken   how often two owners held the same lock at once, since the processes started
--   pairs    the number of pairs
--   figures  see figures_of
local function sample_of(answers, seconds)
  local all, least, slowest, broken = 0, math.huge, 0, 0
  for _, answer in ipairs(answers) do
    local count = answer.pairs or 0
    all, least = all + count, math.min(least, count)
    slowest = math.max(slowest, answer.seconds or 0)
    broken = broken + (answer.broken or 0)
  end
  return {
    rate = all > 0 and all / (seconds or slowest) or 0,
    least = all > 0 and least * #answers / all or 0,
    broken = broken, pairs = all, figures = figures_of(answers),
  }
end

--- Lets all processes work for one window. |command| has either `seconds`, the length of the
-- window, or `holds`, the number of holds of each owner. Calls |meanwhile| (nil: nothing) while
-- they work. Returns the sample: as sample_of, with the costs of a pair: `server_us` and
-- `client_us`, CPU times, and `asked`, requests to etcd (0 if the server does not count them); and
-- `memory`, by how many MB the peak of the processes exceeds their memory before. If a process does
-- not answer, returns nil and the reason.
function Crowd:window(command, meanwhile)
  local line, answers, pids = json.encode(command), {}, pids_of(self)
  local count = self.server.requests or function() return 0 end
  local served, used, resident = cpu_time(self.server.pids()), cpu_time(pids), memory(pids, "VmRSS")
  local asked = count()
  local from = now()
  for _, child in ipairs(self.children) do child:send(line) end
  if meanwhile then meanwhile() end
  for i, child in ipairs(self.children) do
    local answer, why = answer_of(child, "^({.*})$", from + PATIENCE)
    if not answer then return nil, why end
    answers[i] = json.decode(answer)
  end
  -- With `holds`, the time is that from the first command to the last answer: a process measures
  -- only its own time, which is shorter because the processes start one after the other.
  local sample = sample_of(answers, command.holds and now() - from)
  local done = math.max(sample.pairs, 1)
  sample.server_us = (cpu_time(self.server.pids()) - served) / done
  sample.client_us = (cpu_time(pids) - used) / done
  sample.asked = (count() - asked) / done
  sample.memory = memory(pids, "VmHWM") - resident
  return sample
end

function Crowd:stop()
  for _, child in ipairs(self.children) do child:destroy() end
end

return Crowd
