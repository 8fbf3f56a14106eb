-- Compares etcdlock with other clients and locks. In each row, all entrants do the same work, in
-- turns.
--
--   make bench [ROWS="uncontended nginx"]     all rows, or the named rows
--   make bench-quick                          a few rows in a minute, to test the benchmark itself
--
-- Writes the results to bench/out/.

local json = require "dkjson"
local compare = require "bench.compare"
local draw = require "bench.draw"
local etcdlock = require "etcdlock"
local proc = require "spec.support.programs.proc"
local program = require "bench.program"
local report = require "bench.report"
local rows = require "bench.rows"
local uv = require "luv"
local write_file = require "bench.write_file"

local FULL = { rounds = 5, seconds = 2 }
local QUICK = { rounds = 3, seconds = 0.5, is_quick = true }

local function say(...)
  print(string.format(...))
  io.stdout:flush()
end

-- ---- one row ----------------------------------------------------------------------

-- Runs all rounds of a |race| that was started. Returns a table from id to the list of samples.
local function run_rounds(race, row, mode)
  local rounds, command = mode.rounds, { seconds = mode.seconds }
  if not mode.is_quick then
    rounds, command.seconds = row.rounds or rounds, row.seconds or command.seconds
  end
  if row.holds then rounds, command = 1, { holds = row.holds } end
  local ours, samples = race.ids[1], {}
  for _, id in ipairs(race.ids) do samples[id] = {} end
  for number = 1, rounds do
    for id, sample in pairs(race:round(number, command)) do samples[id][number] = sample end
    assert(race.ids[1] == ours, "ours could not go on")
  end
  return samples
end

-- Returns the result of |row|: its description, and the samples of all entrants that took part. In
-- quick mode it has no targets, because the windows are too short to judge them.
local function result_of(row, mode, race, samples)
  local result = {
    id = row.id, title = row.title, short = row.short,
    processes = row.work and row.work.processes or 1,
    promised = not mode.is_quick and row.promised or {},
    limits = row.limits or {}, figures = row.figures or {}, entrants = {},
  }
  for i, id in ipairs(race.ids) do
    result.entrants[i] = { id = id, label = race.labels[id], samples = samples[id] }
  end
  return result
end

-- Runs |row| and returns its result. Calls excuse(who, why) for each entrant that cannot take part,
-- or that fails during a round.
local function run_row(row, mode, excuse)
  local ids = mode.is_quick and row.quick or row.entrants
  local race = require("bench.races." .. row.race).start(row, ids, excuse)
  assert(race.ids[1] == ids[1], "ours could not take part")
  local result = result_of(row, mode, race, run_rounds(race, row, mode))
  race:stop()
  return result
end

-- ---- all of them ------------------------------------------------------------------

-- Returns the rows named in |ids|; if |ids| is empty, all rows, or in quick mode those that have
-- the field `quick`. If a name is unknown, prints a message and exits with 2.
local function wanted_rows(mode, ids)
  local wanted, list, known = {}, {}, {}
  for _, id in ipairs(ids) do wanted[id] = true end
  for _, row in ipairs(rows) do
    known[#known + 1] = row.id
    local is_wanted = wanted[row.id] or not ids[1] and (row.quick or not mode.is_quick)
    if is_wanted then list[#list + 1] = row end
    wanted[row.id] = nil
  end
  local unknown = next(wanted)
  if unknown then
    io.stderr:write(("There is no row %s, only: %s\n"):format(unknown, table.concat(known, " ")))
    os.exit(2)
  end
  return list
end

local function about(mode)
  return {
    date = os.date "!%Y-%m-%d", etcdlock = etcdlock._VERSION,
    rounds = mode.rounds, seconds = mode.seconds, cores = #uv.cpu_info(),
    etcd = proc.run({ "etcd", "--version" }):match "etcd Version: (%S+)",
    lua = jit and jit.version or _VERSION,
  }
end

-- Runs |row| and returns its result. If the row fails, returns nil and the reason. Processes that a
-- failed row leaves behind end with this program.
local function attempt(row, mode, excuse)
  local ok, result = xpcall(run_row, debug.traceback, row, mode, excuse)
  if ok then return result end
  if result:find "interrupted!" then error(result, 0) end -- the interpreter raises it on Ctrl-C
  excuse("anybody", result)
  return nil, result
end

local function run(mode, list)
  local results = { about = about(mode), rows = {}, excuses = {}, failures = 0 }
  for _, row in ipairs(list) do
    say("  %s ...", row.title)
    local function excuse(who, why)
      table.insert(results.excuses, { row = row.title, who = who, why = why:match "[^\n]*" })
      say("    without %s: %s", who, why)
    end
    local result, failure = attempt(row, mode, excuse)
    results.rows[#results.rows + 1] = result
    if failure then results.failures = results.failures + 1 end
  end
  return results
end

-- Writes the results and the charts to |directory|, and prints the results as text.
local function tell(results, directory)
  proc.run { "mkdir", "-p", directory }
  write_file(directory .. "/results.json", json.encode(results))
  draw(results, function(name, svg)
    write_file(("%s/%s.svg"):format(directory, name), svg)
  end)
  print(report.text(results))
  print("The numbers behind it, and charts: " .. directory)
end

-- Returns whether all rows ran, and etcdlock never let two owners hold the same lock.
local function main()
  local mode, ids = FULL, arg
  if arg[1] == "quick" then mode, ids = QUICK, {} end
  local list = wanted_rows(mode, ids)
  say("etcdlock and its peers take turns, %d rounds of %g s each", mode.rounds, mode.seconds)
  local results = run(mode, list)
  tell(results, "bench/out/" .. (mode.is_quick and "quick" or ids[1] and "some" or "all"))
  return results.failures == 0 and compare.is_exclusive(results)
end

-- The servers must write to a disk, but /tmp may be in memory.
uv.os_setenv("TMPDIR", "/var/tmp")
program(main)
