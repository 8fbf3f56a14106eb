-- Measures where the time of a lock and its unlock goes: CPU time of etcd, fsyncs of its disk, and
-- CPU time of the client by thread and by library.
--
--   make profile
--
-- Writes the tables to bench/out/profile.md; `make bench-report` puts them into doc/performance.md.

local Crowd = require "bench.crowd"
local entrants = require "bench.entrants"
local measure = require "bench.measure"
local metric = require "spec.support.servers.metric"
local proc = require "spec.support.programs.proc"
local page = require "bench.page"
local program = require "bench.program"
local rows = require "bench.rows"
local servers = require "bench.servers"
local temporary = require "spec.support.harness.temporary"
local usage = require "bench.usage"
local uv = require "luv"

-- The rows of rows.lua that are measured.
local IDS = { uncontended = true, names = true, processes_2 = true }
local WARM_UP, WINDOW = { seconds = 1 }, { seconds = 5 }

-- ---- by process and thread --------------------------------------------------------

local METRICS = {
  fsyncs = "etcd_disk_wal_fsync_duration_seconds_count",
  fsync_seconds = "etcd_disk_wal_fsync_duration_seconds_sum",
  requests = "grpc_server_started_total",
}

-- Returns the sums since the start: METRICS of |etcd|, and CPU times in µs: `etcd`, `client` (all
-- processes of |crowd|), and one for each name of usage.thread_times.
local function snapshot(etcd, crowd)
  local taken = { etcd = usage.time { etcd:pid() }, client = 0 }
  for name, field in pairs(METRICS) do taken[name] = metric(etcd, field) end
  local threads = {}
  for _, pid in ipairs(crowd:pids()) do usage.thread_times(pid, threads) end
  for who, time in pairs(threads) do
    taken[who], taken.client = time, taken.client + time
  end
  return taken
end

-- Runs a window of |crowd|. Returns the differences of the snapshots before and after it, divided
-- by the number of pairs of lock and unlock; also `pair`, the time of a pair, and `fsync`, both in
-- µs.
local function spent(etcd, crowd)
  local before = snapshot(etcd, crowd)
  local sample = assert(crowd:window(WINDOW))
  local after = snapshot(etcd, crowd)
  local pairs_done, result = sample.rate * WINDOW.seconds, { pair = 1e6 / sample.rate }
  for name, value in pairs(after) do
    result[name] = (value - (before[name] or 0)) / pairs_done
  end
  result.fsync = result.fsync_seconds * 1e6
  return result
end

-- ---- by library -------------------------------------------------------------------

-- Groups of libraries: the name of the group, and patterns for the file names that perf prints.
local LIBRARIES = {
  { "the kernel", "^%[" },
  { "gRPC", "libgrpc", "libgpr", "libaddress_sorting", "libabsl", "libcares", "libupb" },
  { "Lua", "^lua", "liblua" },
  { "the C library", "^libc%.", "^libm%.", "libpthread", "^ld%-", "libstdc", "libgcc", "vdso" },
  { "etcdlock's core", "^core%.so" },
  { "the benchmark itself", "luv", "libuv" },
}

local function library_of(file)
  for _, library in ipairs(LIBRARIES) do
    for i = 2, #library do
      if file:find(library[i]) then return library[1] end
    end
  end
  return "others"
end

-- Runs a window of |crowd| under perf. Returns the shares of the groups in the CPU time of its
-- processes, in percent; nil if perf is not installed or recorded nothing.
local function shares(crowd)
  local file = temporary.directory() .. "/perf.data"
  local perf = proc.spawn {
    "perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-o", file,
    "-p", table.concat(crowd:pids(), ","),
  }
  assert(crowd:window(WINDOW))
  if not perf.code then uv.kill(perf.pid, "sigint") end
  proc.wait(perf)
  if not uv.fs_stat(file) then return nil end
  local text, list = proc.run { "perf", "report", "-q", "--stdio", "--sort", "dso", "-i", file }, {}
  for share, dso in text:gmatch "([%d.]+)%%%s+(%S+)" do
    local name = library_of(dso)
    list[name] = (list[name] or 0) + tonumber(share)
  end
  return next(list) and list
end

-- ---- the table ---------------------------------------------------------------------

-- The lines of a table: the field of the result, and its label.
local LINES = {
  { "pair", "time of a lock and its unlock, µs" },
  { "requests", "requests to etcd" },
  { "fsyncs", "fsyncs of etcd" },
  { "fsync", "… time of these fsyncs, µs" },
  { "etcd", "CPU time of etcd, µs" },
  { "client", "CPU time of the client, µs" },
  { "caller", "… the Lua thread" },
  { "etcdlock-io", "… the I/O thread" },
}

local function tell(title, ours, go, libraries)
  local lines = { ("| %s | etcdlock | Go |\n|---|--:|--:|"):format(title) }
  local function add(label, our_value, go_value)
    lines[#lines + 1] = ("| %s | %s | %s |"):format(label, measure.number(our_value),
      go_value and measure.number(go_value) or "")
  end
  for _, line in ipairs(LINES) do
    local field, label = line[1], line[2]
    local is_of_ours = field == "caller" or field == "etcdlock-io"
    add(label, ours[field], not is_of_ours and go[field])
  end
  for _, library in ipairs(LIBRARIES) do
    local share = libraries and libraries[library[1]]
    if share then add(("… %s"):format(library[1]), ours.client * share / 100) end
  end
  return table.concat(lines, "\n") .. "\n"
end

-- Measures entrant |id| in |row|. Returns its results, as spent does, and for etcdlock also those
-- of shares.
local function profile(id, row)
  local etcd = servers.etcd()
  local crowd = assert(Crowd.start(entrants[id], row.work, etcd:endpoint(), row.id))
  assert(crowd:window(WARM_UP))
  local result = spent(etcd, crowd)
  local libraries = id == "etcdlock" and shares(crowd)
  crowd:stop()
  etcd:stop()
  return result, libraries
end

local function main()
  local list = {}
  for _, row in ipairs(rows) do
    if IDS[row.id] then list[#list + 1] = row end
  end
  page("profile", list, function(row)
    local ours, libraries = profile("etcdlock", row)
    return tell(row.title, ours, profile("go", row), libraries)
  end)
end

uv.os_setenv("TMPDIR", "/var/tmp") -- because /tmp may be in memory, and etcd must write to a disk
program(main)
