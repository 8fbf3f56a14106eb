-- The rows of the benchmark, in the order of the reports. Each has a target: a promise.
-- row(ID, TITLE, { PROCESSES, OWNERS, NAMES }, ENTRANTS, MORE). OWNERS and NAMES are their numbers
-- in each process.
--
-- ENTRANTS are words: ids of entrants.lua, or rates such as 20/s. The first is a program of
-- etcdlock, and the others are compared with it. go>=2: the target is at least two times the rate
-- of the entrant go.
--
-- MORE:
--   group    a name for several rows on the command line (main)
--   rounds   number of rounds (5)
--   seconds  length of the window of a round (2)
--   holds    number of holds of each owner in a round, in place of a window of time
--   hold     seconds of each hold (0)
--   fault    the function of faults.lua that disturbs each window; etcd then has three members
--   figures  words: FIELD is the median of a field of the answers of etcdlock, FIELD:99 its 99th
--            percentile; FIELD<=3 has the target 3. FIGURES has the label of each field

local M = { list = {} }

M.FIGURES = {
  cpu_percent = "% of a core while idle",
  failed = "number of `lock` calls in a window that fail with a code other than `timeout`",
  handoff = "ms from `unlock` in one process to the return of `lock` in the other",
  late = "ms by which a call returns after its limit",
  lost = "locks lost that were held all the time, TTL 5 s",
  requests = "requests about locks for each hold",
  rpcs = "requests to etcd per second while idle",
  stall = "s: longest wait of each client for a free lock in a window",
  tail = "p99 of a request beside its median, as wrk has it",
  takeover = "s from the kill of the holder, TTL 2 s, to the next grant",
}

-- Returns the words of |text|, each as { word, target or nil }. |sign|: ">=" or "<=".
local function targets_of(text, sign)
  local list = {}
  for word in text:gmatch "%S+" do
    local name, target = word:match("^(.-)" .. sign .. "(.+)$")
    list[#list + 1] = { name or word, tonumber(target) }
  end
  return list
end

local function row(id, title, work, entrants, more)
  local it = { id = id, title = title, processes = work[1], owners = work[2], names = work[3] }
  for field, value in pairs(more or {}) do it[field] = value end
  local figures = targets_of(it.figures or "", "<=")
  it.group, it.entrants, it.limits = it.group or "main", {}, {}
  it.promised, it.figures = {}, {}
  for _, word in ipairs(targets_of(entrants, ">=")) do
    it.promised[word[1]] = word[2]
    table.insert(word[1]:find "/s$" and it.limits or it.entrants, word[1])
  end
  for i, word in ipairs(figures) do
    local field, percent = word[1]:match "^([^:]+):?(%d*)$"
    it.figures[i] = { field = field, percent = tonumber(percent) or 50, at_most = word[2] }
  end
  M.list[#M.list + 1] = it
end

local REDIS = "redisson redisson_always fair fair_always redis redis_always"

-- More and shorter rounds than the default: the speed of the disk varies more than the entrants
-- differ, and the rate of Go's clients depends on the phase of a timer of etcd (100 ms).
local SHORT = { rounds = 15, seconds = 0.7 }

row("free", "a free lock, one at a time", { 1, 1, 1 },
  "etcdlock bare>=0.95 go>=1 go_bare jetcd curator " .. REDIS, SHORT)
row("names", "64 names at once in one process", { 1, 64, 64 },
  "etcdlock bare>=0.9 go>=2 jetcd curator " .. REDIS)
row("owners", "100 owners of one process, one name", { 1, 100, 1 },
  "etcdlock go>=20 jetcd curator " .. REDIS)
row("processes_2", "2 processes, one name", { 2, 1, 1 },
  "etcdlock go>=5 jetcd curator " .. REDIS,
  { rounds = 15, seconds = 0.7, figures = "handoff<=3 handoff:99<=15" })
row("processes_16", "16 processes, one name", { 16, 1, 1 },
  "etcdlock go>=2 jetcd curator redisson redis")
row("holds", "1,000 owners in 20 processes, one hold of 50 ms each", { 20, 50, 1 },
  "etcdlock go jetcd curator redisson redisson_always fair 20/s>=0.98",
  { holds = 1, hold = 0.05, rounds = 1 })
row("several", "five names in one call", { 1, 1, 1 }, "etcdlock_several etcdlock>=0.77", SHORT)
row("retake", "taking a lingering lock again", { 1, 1, 1 },
  "etcdlock_linger etcdlock go 50000/s>=1", { figures = "requests<=0.001" })
row("nginx", "one name in one nginx worker, 50 connections", { 1, 1, 1 },
  "nginx nginx_dict nginx_redis 10000/s>=1", { figures = "tail<=3" })
row("command", "a command under a free lock, one at a time", { 1, 1, 1 },
  "command etcdctl>=0.83 script", SHORT)
row("held", "10,000 locks held by one client", { 1, 1, 1 }, "held",
  { seconds = 4, figures = "cpu_percent<=1 rpcs" })

row("leader_killed", "8 clients while the leader is killed", { 1, 8, 8 }, "kept",
  { group = "faults", fault = "kill", rounds = 10, seconds = 7,
    figures = "stall:95<=2.5 lost:100<=0 failed:100<=0" })
row("leader_silent", "8 clients while the leader stands still for 4 s", { 1, 8, 8 }, "kept",
  { group = "faults", fault = "stop", rounds = 3, seconds = 7,
    figures = "stall:95<=2.5 lost:100<=0 failed:100<=0" })
row("restarts", "8 clients while each member is restarted", { 1, 8, 8 }, "kept",
  { group = "faults", fault = "restart", rounds = 2, seconds = 15,
    figures = "stall:95<=2.5 lost:100<=0 failed:100<=0" })
row("deadlines", "calls while all members stand still", { 1, 1, 1 }, "deadlines",
  { group = "faults", fault = "stop_all", rounds = 3, seconds = 12, figures = "late:100<=250" })
row("takeover", "10 holders are killed", { 1, 10, 10 }, "takeover",
  { group = "faults", rounds = 2, figures = "takeover takeover:100<=3" })

return M
