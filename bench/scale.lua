-- Measures how etcdlock scales with the number of owners, clients and names: holds per second,
-- requests and CPU time per hold, and memory. Each test runs with two or three numbers, each
-- several times as large as the one before.
--
--   make scale
--
-- Writes the tables to bench/out/scale.md; `make bench-report` puts them into doc/performance.md.

local Crowd = require "bench.crowd"
local entrants = require "bench.entrants"
local measure = require "bench.measure"
local metric = require "spec.support.servers.metric"
local page = require "bench.page"
local program = require "bench.program"
local servers = require "bench.servers"
local usage = require "bench.usage"
local uv = require "luv"

local SHARES = 20 -- processes among which in_many divides the owners

local function in_one(count)
  return { processes = 1, owners = count, names = 1 }
end

local function in_many(count)
  return { processes = SHARES, owners = count / SHARES, names = 1 }
end

local function who_hold(count)
  local work = in_many(count)
  work.hold = 0.05
  return work
end

-- One process in which |count| owners each use another name, so that they do not wait for each
-- other.
local function names(count)
  return { processes = 1, owners = count, names = count }
end

local TESTS = {
  {
    title = "owners in one process, one name",
    entrant = "etcdlock", sizes = { 100, 1000, 10000 }, work = in_one, holds = 10000,
  },
  {
    title = ("owners in %d processes, one name"):format(SHARES),
    entrant = "etcdlock", sizes = { 100, 1000, 10000 }, work = in_many, holds = 10000,
  },
  {
    title = ("owners in %d processes, one name, holds of 50 ms, handoff_time = 1"):format(SHARES),
    entrant = "etcdlock_turns", sizes = { 100, 1000 }, work = who_hold, holds = 1000,
  },
  {
    title = ("clients in %d processes, one name, a key each"):format(SHARES),
    entrant = "etcdlock_clients", sizes = { 20, 100, 1000 }, work = in_many,
    holds = 5000,
  },
  {
    title = "names at a time, each used once",
    entrant = "etcdlock_fresh", sizes = { 1, 64, 1000 }, work = names,
    seconds = 5,
  },
}

-- Returns the bytes of memory of all processes of |crowd|. |when|: "now", or "most" for the peak.
local function memory_of(crowd, when)
  local bytes = 0
  for _, pid in ipairs(crowd:pids()) do bytes = bytes + usage.memory(pid)[when] end
  return bytes
end

-- Returns the counts since the start: requests that etcd has received, and the CPU time in µs of
-- etcd and of all processes of |crowd|.
local function work_of(etcd, crowd)
  return {
    requests = metric(etcd, "grpc_server_started_total"),
    etcd = usage.time { etcd:pid() },
    clients = usage.time(crowd:pids()),
  }
end

-- Runs |test| with |count| owners, clients or names. Returns holds per second, additional memory in
-- bytes, and per hold: requests, and CPU time in µs of etcd and of the clients.
local function measured(test, count)
  local etcd = servers.etcd()
  local crowd = assert(Crowd.start(entrants[test.entrant], test.work(count), etcd:endpoint(), "x"))
  local memory = memory_of(crowd, "now")
  local before = work_of(etcd, crowd)
  local sample = assert(crowd:window {
    holds = test.holds and test.holds / count, seconds = test.seconds,
  })
  local after = work_of(etcd, crowd)
  local holds = test.holds or sample.rate * test.seconds
  local result = { rate = sample.rate, memory = memory_of(crowd, "most") - memory }
  for what, value in pairs(after) do result[what] = (value - before[what]) / holds end
  crowd:stop()
  etcd:stop()
  return result
end

local function tell(test)
  local lines = {
    ("| %s | holds/s | requests per hold | CPU time of etcd per hold, µs "
      .. "| CPU time of the clients per hold, µs | more memory, MB |"):format(test.title),
    "|--:|--:|--:|--:|--:|--:|",
  }
  for _, count in ipairs(test.sizes) do
    local result = measured(test, count)
    lines[#lines + 1] = ("| %d | %s | %s | %s | %s | %s |"):format(count,
      measure.number(result.rate), measure.number(result.requests), measure.number(result.etcd),
      measure.number(result.clients), measure.number(result.memory / 2^20))
  end
  return table.concat(lines, "\n") .. "\n"
end

uv.os_setenv("TMPDIR", "/var/tmp") -- because /tmp may be in memory, and etcd must write to a disk
program(function() page("scale", TESTS, tell) end)
