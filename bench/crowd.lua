-- A crowd: the processes of one entrant that do the work of a row. They work only during windows,
-- which crowd:window starts. bench/README.md describes the messages between a process and this
-- program.

local json = require "dkjson"
local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"

local Crowd = {}
Crowd.__index = Crowd

local START = 60 -- seconds to wait until a process is ready
local PATIENCE = 100 -- seconds to wait for the answer of a process to a window

-- Returns a new directory for the files of the witnesses. It is in memory if possible, because only
-- etcd should use the disk during a measurement.
local function marks_directory()
  return temporary.directory(uv.fs_stat "/dev/shm" and "/dev/shm")
end

local function job_of(entrant, work, endpoint, prefix)
  return json.encode {
    endpoint = endpoint,
    prefix = prefix,
    work = entrant.work or "lock",
    linger = entrant.linger, handoff_time = entrant.handoff_time,
    clients = entrant.clients,
    fresh = entrant.fresh,
    owners = work.owners,
    names = work.names,
    hold = work.hold or 0,
    marks = work.processes > 1 and marks_directory() or nil,
  }
end

-- Waits until |child| prints a line that matches |pattern|. Returns the line. If the line does not
-- come in time, or |child| ends, returns nil and the first line that |child| wrote to standard
-- error, or "no answer".
local function answer_of(child, pattern, seconds)
  local ok, line = pcall(child.expect, child, pattern, seconds)
  if ok then return line end
  local why = child:errors():match "[^\n]+" or "no answer"
  return nil, (why:gsub("^.-%.lua:%d+: ", ""))
end

--- Starts the processes of |entrant| and waits until all are ready. |work|: `processes`, their
-- number; `owners` and `names`, their numbers in each process; `hold`, seconds of each hold.
-- Returns the crowd. If a process does not become ready, returns nil and the reason.
function Crowd.start(entrant, work, endpoint, prefix)
  local self, argv = setmetatable({ children = {} }, Crowd), {}
  for i, word in ipairs(entrant.argv) do argv[i] = word end
  argv[#argv + 1] = job_of(entrant, work, endpoint, prefix)
  for i = 1, work.processes do self.children[i] = proc.talk(argv, entrant.env) end
  for _, child in ipairs(self.children) do
    local ready, why = answer_of(child, "^ready$", START)
    if not ready then
      self:stop()
      return nil, why
    end
  end
  return self
end

-- Returns the sample of one window, computed from the answers of all processes:
--   rate      pairs of lock and unlock per second; the time is |seconds|, or, if |seconds| is nil,
--             the time of the slowest process
--   least     pairs of the process with the fewest, divided by the mean over the processes
--   broken    how often two owners held the same lock at once, since the processes started
--   requests  requests about locks per pair, or their number if there was no pair; nil if a process
--             does not count them
local function sample_of(answers, seconds)
  local all, least, slowest, broken, requests = 0, math.huge, 0, 0, 0
  for _, answer in ipairs(answers) do
    all, least = all + answer.pairs, math.min(least, answer.pairs)
    slowest, broken = math.max(slowest, answer.seconds), broken + answer.broken
    requests = answer.requests and requests and requests + answer.requests
  end
  if all == 0 then return { rate = 0, least = 0, broken = broken, requests = requests } end
  return {
    rate = all / (seconds or slowest), least = least * #answers / all, broken = broken,
    requests = requests and requests / all,
  }
end

--- Lets all processes work for one window. |command| has either `seconds`, the length of the
-- window, or `holds`, the number of holds of each owner. Returns the sample. If a process does not
-- answer, returns nil and the reason.
function Crowd:window(command)
  local line, answers, from = json.encode(command), {}, uv.hrtime()
  for _, child in ipairs(self.children) do child:send(line) end
  for i, child in ipairs(self.children) do
    local answer, why = answer_of(child, "^{.*}$", PATIENCE)
    if not answer then return nil, why end
    answers[i] = json.decode(answer)
  end
  -- With `holds`, the time is that from the first command to the last answer: a process measures
  -- only its own time, which is shorter because the processes start one after the other.
  return sample_of(answers, command.holds and (uv.hrtime() - from) / 1e9)
end

--- Returns the process ids of the crowd.
function Crowd:pids()
  local pids = {}
  for i, child in ipairs(self.children) do pids[i] = child.process.pid end
  return pids
end

function Crowd:stop()
  for _, child in ipairs(self.children) do child:destroy() end
end

return Crowd
