-- Runs the rows of rows.lua. In each row, all entrants do the same work, in turns.
--
--   make bench [ROWS="free nginx"] [ENTRANTS="etcdlock go"]
--
-- ROWS are rows or groups of rows (unset: all), ENTRANTS limits the entrants. ROUNDS limits the
-- number of rounds; with it, rates have no targets. SECONDS is the length of a window, in place of
-- the rows' own. The results are in bench/out/all/ after a run of all rows and entrants, otherwise
-- in bench/out/some/.

local Crowd = require "bench.crowd"
local Etcd = require "spec.support.servers.etcd"
local Nginx = require "spec.support.servers.nginx"
local charts = require "bench.charts"
local json = require "dkjson"
local entrants = require "bench.entrants"
local etcdlock = require "etcdlock"
local faults = require "bench.faults"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local report = require "bench.report"
local rows = require "bench.rows"
local servers = require "bench.servers"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"
local write_file = require "bench.write_file"

local ROUNDS, SECONDS = tonumber(os.getenv "ROUNDS"), tonumber(os.getenv "SECONDS")
local WARM_UP = { seconds = 1 }

local M = {}

-- Returns the set of the words in the environment variable |name|; nil if it is unset or empty.
local function words(name)
  local set
  for word in (os.getenv(name) or ""):gmatch "%S+" do
    set = set or {}
    set[word] = true
  end
  return set
end

-- ---- one row ----------------------------------------------------------------------

local Race = {}
Race.__index = Race

-- Starts the entrants |ids| of |row|. Fields: `ids`, those that take part; by id, `crowds` and
-- `samples`. Calls excuse(label, why) for each that cannot start, and later for each that fails.
function M.race(row, ids, excuse)
  local self = setmetatable({ row = row, ids = {}, crowds = {}, samples = {}, servers = {} }, Race)
  self.excuse = excuse
  for _, id in ipairs(ids) do
    local entrant = entrants[id]
    local kind = row.fault and "cluster" or entrant.server or "etcd"
    self.servers[kind] = self.servers[kind] or servers[kind]()
    local crowd, why = Crowd.start(entrant, row, self.servers[kind])
    if crowd then
      self.ids[#self.ids + 1] = id
      self.crowds[id], self.samples[id] = crowd, {}
    else
      excuse(entrant.label, why)
    end
  end
  return self
end

-- Stops entrant |id|, which has failed. The other entrants go on.
local function dismiss(self, id, why)
  self.excuse(entrants[id].label, why)
  self.crowds[id]:stop()
  self.crowds[id] = nil
  for i = #self.ids, 1, -1 do
    if self.ids[i] == id then table.remove(self.ids, i) end
  end
end

-- Runs one window of each entrant. In each round another entrant is first. The round 0 only warms
-- up.
function Race:round(number, command)
  local fault, order = number > 0 and faults[self.row.fault], {}
  for i = 1, #self.ids do order[i] = self.ids[(number + i) % #self.ids + 1] end
  for _, id in ipairs(order) do
    local sample, why = self.crowds[id]:window(command, fault and function()
      fault(self.servers.cluster.etcd)
    end)
    if not sample then
      dismiss(self, id, why)
    elseif number > 0 then
      self.samples[id][number] = sample
    end
  end
end

function Race:stop()
  for _, crowd in pairs(self.crowds) do crowd:stop() end
  for _, server in pairs(self.servers) do server.stop() end
end

-- Runs |rounds| rounds of |row| with the entrants |ids|, and adds what they did to the list |done|.
local function run_rounds(row, ids, rounds, done, excuse)
  local race = M.race(row, ids, excuse)
  if not row.holds and not row.fault then race:round(0, WARM_UP) end
  local command = { seconds = SECONDS or row.seconds or 2 }
  if row.holds then command = { holds = row.holds } end
  for number = 1, rounds do race:round(number, command) end
  for _, id in ipairs(race.ids) do
    local crowd = race.crowds[id]
    done[#done + 1] = {
      id = id, label = entrants[id].label, versions = { crowd.server.version, crowd.versions },
      samples = race.samples[id],
    }
  end
  race:stop()
end

-- Runs |row|. Returns its result: the row, with the samples of the entrants that took part, and
-- their versions. In a row of one round the entrants start one after the other, so each has the
-- machine for itself.
local function run_row(row, excuse)
  local ids, result, rounds = row.entrants, {}, row.rounds or 5
  for field, value in pairs(row) do result[field] = value end
  result.entrants, result.promised = {}, ROUNDS and {} or row.promised
  if ROUNDS then rounds = math.min(ROUNDS, rounds) end
  for i, id in ipairs(ids) do
    if rounds == 1 then
      run_rounds(row, { id }, rounds, result.entrants, excuse)
    elseif i == 1 then
      run_rounds(row, ids, rounds, result.entrants, excuse)
    end
  end
  assert(result.entrants[1] and result.entrants[1].id == ids[1], "the first entrant has failed")
  return result
end

-- ---- all of them ------------------------------------------------------------------

-- Returns the rows in the set |wanted|; nil: all. If a name is unknown, exits with 2.
local function wanted_rows(wanted)
  local list, known = {}, {}
  for _, row in ipairs(rows.list) do
    if not wanted or wanted[row.id] or wanted[row.group] then list[#list + 1] = row end
    known[row.id], known[row.group] = true, true
  end
  for name in pairs(wanted or {}) do
    if not known[name] then
      io.stderr:write(("There is no row %s: see bench/rows.lua\n"):format(name))
      os.exit(2)
    end
  end
  return list
end

-- Keeps only those entrants of the rows |list| that are in the set |wanted| (nil: all) and are
-- prepared. Calls excuse(who, why) once for each file that is missing.
function M.choose(list, wanted, excuse)
  local missing, files = {}, {}
  local function leave_out(label, file)
    local labels = missing[file] or {}
    if not missing[file] then missing[file], files[#files + 1] = labels, file end
    if not labels[label] then labels[label], labels[#labels + 1] = true, label end
  end
  for _, row in ipairs(list) do
    local ids = {}
    for _, id in ipairs(row.entrants) do
      if not wanted or wanted[id] then
        local entrant = entrants[id]
        if not entrant.needs or uv.fs_stat(entrant.needs) then
          ids[#ids + 1] = id
        else
          leave_out(entrant.label, entrant.needs)
        end
      end
    end
    row.entrants = ids
  end
  for _, file in ipairs(files) do
    excuse(table.concat(missing[file], "; "), "there is no " .. file)
  end
end

local function about()
  local system = read_file "/etc/os-release" or ""
  return {
    date = os.date "!%Y-%m-%d", etcdlock = etcdlock._VERSION, cores = #uv.cpu_info(),
    system = system:match 'PRETTY_NAME="([^"]*)"' or "Linux",
    lua = proc.run({ uv.exepath(), "-v" }):match "^%S+ %S+" or _VERSION,
    grpc = proc.run({ "pkg-config", "--modversion", "grpc" }):match "%S+",
  }
end

-- Runs the rows |list|. Processes that a failed row leaves behind end with this program.
local function run(list, wanted)
  local results = { about = about(), rows = {}, excuses = {}, failures = 0 }
  local function excuse(who, why, row)
    table.insert(results.excuses, { row = row and row.title, who = who, why = why:match "[^\n]*" })
    print(("%swithout %s: %s"):format(row and "  " or "", who, why))
  end
  M.choose(list, wanted, excuse)
  for _, row in ipairs(list) do
    print(("%s (%s) ..."):format(row.title, row.id))
    local function excuse_here(who, why) excuse(who, why, row) end
    local ok, result = xpcall(run_row, debug.traceback, row, excuse_here)
    if ok then
      results.rows[#results.rows + 1] = result
      print(report.text(result))
    else
      if result:find "interrupted!" then error(result, 0) end -- from the interpreter, on Ctrl-C
      excuse_here("anybody", result)
      results.failures = results.failures + 1
    end
  end
  return results
end

-- Returns true if all rows ran, and etcdlock never let two owners hold the same lock.
local function main()
  io.stdout:setvbuf "line"
  uv.os_setenv("TMPDIR", "/var/tmp") -- /tmp may be in memory, and the servers must write to a disk
  local wanted, taking_part = words "ROWS", words "ENTRANTS"
  local results = run(wanted_rows(wanted), taking_part)
  local directory = "bench/out/" .. ((wanted or taking_part) and "some" or "all")
  proc.run { "mkdir", "-p", directory }
  write_file(directory .. "/results.json", json.encode(results))
  charts(results, directory)
  print("The samples and the charts are in " .. directory)
  return results.failures == 0 and report.is_exclusive(results)
end

-- Runs the benchmark, stops all that it has started, and ends the program.
function M.program()
  local ok, result = xpcall(main, debug.traceback)
  Nginx.stop_all()
  Etcd.stop_all()
  temporary.remove_all()
  proc.shut_down()
  if not ok then io.stderr:write(tostring(result), "\n") end
  os.exit(ok and result ~= false and 0 or 1)
end

if arg and arg[0]:find "bench/run.lua$" then M.program() end

return M
