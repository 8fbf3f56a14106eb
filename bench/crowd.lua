-- One entrant's processes at the work of a row: started, ready, and told window by
-- window to begin.

local cjson = require "cjson"
local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"

local Crowd = {}
Crowd.__index = Crowd

local START = 60 -- seconds until all are ready
local PATIENCE = 100 -- seconds that a window may last

-- Where the processes' witnesses leave their marks: in memory, for the disk's time is
-- etcd's.
local function marks_directory()
  return temporary.directory(uv.fs_stat "/dev/shm" and "/dev/shm")
end

local function job_of(entrant, work, endpoint, prefix)
  return cjson.encode {
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

-- Waits until |child| prints a line that matches |pattern|; returns it | nil, what it says
-- is wrong.
local function answer_of(child, pattern, seconds)
  local ok, line = pcall(child.expect, child, pattern, seconds)
  if ok then return line end
  local why = child:errors():match "[^\n]+" or "no answer"
  return nil, (why:gsub("^.-%.lua:%d+: ", ""))
end

--- Starts them: the crowd when all are ready | nil, why they can't be. |work| is a
-- row's: processes, and in each of them owners, names, hold.
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

-- What all answered, in one: pairs per second (of so many |seconds|, or of as many as the
-- slowest needed), the share of the process that got the least (1: as much as the others),
-- how often two were inside at once, and of who counts them requests for each pair, or all if
-- there is none.
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

--- Lets all of them work for one window, |command|: of so many `seconds`, or so many
-- `holds` of each owner. Returns the sample | nil, why there is none.
function Crowd:window(command)
  local line, answers, from = cjson.encode(command), {}, uv.hrtime()
  for _, child in ipairs(self.children) do child:send(line) end
  for i, child in ipairs(self.children) do
    local answer, why = answer_of(child, "^{.*}$", PATIENCE)
    if not answer then return nil, why end
    answers[i] = cjson.decode(answer)
  end
  -- Whoever was told later than others hasn't been at work for as long as all have.
  return sample_of(answers, command.holds and (uv.hrtime() - from) / 1e9)
end

--- The process ids of all of them.
function Crowd:pids()
  local pids = {}
  for i, child in ipairs(self.children) do pids[i] = child.process.pid end
  return pids
end

function Crowd:stop()
  for _, child in ipairs(self.children) do child:destroy() end
end

return Crowd
