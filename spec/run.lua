-- Runs spec files in parallel, each in its own busted process, because they wait more than they
-- compute. Prints one line for each file, and at the end "N passed, N failed[, N skipped]". Files
-- with the line "-- Runs alone: ..." run after the others, one at a time, because other files would
-- disturb their measurements. A file that fails is run again alone at the end; if it passes then,
-- it counts as passed and is listed as "flaky: FILE". A crash or a sanitizer's report is not
-- repeated.
--
--   lua spec/run.lua FILE|DIRECTORY... -- BUSTED...
--
-- Environment:
--   JOBS         how many files run at a time (3)
--   REPORTS      required: the directory for the output of the files and the reports of sanitizers;
--                a report is a failure, even if it comes from a child of a test that passed
--   PATIENCE     see spec/support/harness/wait.lua; measured if it is not set
--   COVERAGE     the directory for the coverage data of each file, with a coverage build
--   LONGEST      seconds after which a file is killed (600)
--   FAIL_FAST=1  stop at the first failure, and repeat no file
--   V=1          show all output, not only that of failures

local ports = require "spec.support.servers.port"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local JOBS = math.max(1, tonumber(os.getenv "JOBS") or 3)
local FAIL_FAST, VERBOSE = os.getenv "FAIL_FAST" == "1", os.getenv "V" == "1"
local COVERAGE = os.getenv "COVERAGE" ~= "" and os.getenv "COVERAGE" or nil
local REPORTS = assert(os.getenv "REPORTS", "REPORTS is not set")
-- Seconds after which a file that hangs is killed.
local LONGEST = tonumber(os.getenv "LONGEST") or 600
local SANITIZERS = { "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS" }

-- ---- files --------------------------------------------------------------------

local function entries(directory)
  local names = {}
  local scan = assert(uv.fs_scandir(directory))
  for name, kind in function() return uv.fs_scandir_next(scan) end do
    names[#names + 1] = { name = name, is_directory = kind == "directory" }
  end
  table.sort(names, function(a, b) return a.name < b.name end)
  return names
end

-- Adds the spec files at |path| to |list| and returns it.
local function find(path, list)
  if not path:find "%.lua$" then
    for _, entry in ipairs(entries(path)) do
      if entry.is_directory or entry.name:find "_spec%.lua$" then
        find(path .. "/" .. entry.name, list)
      end
    end
  elseif not list[path] then
    assert(uv.fs_stat(path))
    list[#list + 1], list[path] = path, true
  end
  return list
end

local function read_arguments()
  local files, command, to = {}, {}, nil
  for _, word in ipairs(arg) do
    if to then
      to[#to + 1] = word
    elseif word == "--" then
      to = command
    else
      find((word:gsub("/$", "")), files)
    end
  end
  assert(files[1] and command[1], "usage: run.lua FILE|DIRECTORY... -- BUSTED...")
  return files, command
end

-- Splits |files| into those that run in parallel and those that run alone.
local function split(files)
  local together, alone = {}, {}
  for _, file in ipairs(files) do
    local list = assert(read_file(file)):find "\n%-%- Runs alone: " and alone or together
    list[#list + 1] = file
  end
  return together, alone
end

-- ---- one run of one file ------------------------------------------------------

local directories = {} -- set of the temporary directories of the running files

local function make_directory()
  local path = assert(uv.fs_mkdtemp((os.getenv "TMPDIR" or "/tmp") .. "/etcdlock-XXXXXX"))
  directories[path] = true
  return path
end

local function remove_directory(path)
  proc.run { "rm", "-rf", path }
  directories[path] = nil
end

-- Starts |command| with |file| and returns the run. The run has its own ports, temporary directory,
-- directory of reports, and log, because other files run at the same time. |try| is 1, or 2 for a
-- repetition.
local function start(file, command, try)
  local run = { file = file, from = wait.now(), ports = ports.reserve() }
  run.directory = make_directory()
  run.reports = ("%s/%s.%d"):format(REPORTS, file:gsub("^spec/", ""):gsub("[/.]", "-"), try)
  assert(uv.fs_mkdir(run.reports, tonumber("755", 8)))
  run.log = run.reports .. ".log"
  local env = { SPEC_PORTS = run.ports.range, TMPDIR = run.directory }
  for _, name in ipairs(SANITIZERS) do
    local options = os.getenv(name)
    env[name] = options and ("%s:log_path=%s/%s"):format(options, run.reports, name)
  end
  if COVERAGE then
    local directory = ("%s/%s"):format(COVERAGE, file:match "^spec/(.*)%.lua$":gsub("/", "-"))
    if try == 1 then assert(uv.fs_mkdir(directory, tonumber("755", 8))) end
    env.GCOV_PREFIX, env.LUA_COVERAGE = directory, directory
    env.LUA_INIT = ("@%s/spec/mutants/lua_coverage.lua"):format(uv.cwd())
  end
  local argv = {}
  for i, word in ipairs(command) do argv[i] = word end
  argv[#argv + 1] = file
  local log = assert(uv.fs_open(run.log, "w", tonumber("644", 8)))
  run.process = proc.spawn(argv, { nil, log, log }, { env = env })
  uv.fs_close(log)
  return run
end

-- The leak sanitizer prints these lines if a thread ends during its search. They report no leak.
local ENDED_THREAD = {
  "^==%d+==Unable to get registers from thread %d+%.$",
  "^==%d+==Running thread %d+ was not suspended%. False leaks are possible%.$",
}

local function is_about_ended_thread(line)
  return line:find(ENDED_THREAD[1]) or line:find(ENDED_THREAD[2])
end

local function sanitizer_reports(run)
  local lines = {}
  for _, entry in ipairs(entries(run.reports)) do
    local text = assert(read_file(run.reports .. "/" .. entry.name))
    for line in text:gmatch "[^\n]+" do
      if not is_about_ended_thread(line) then lines[#lines + 1] = line end
    end
  end
  return table.concat(lines, "\n")
end

-- Records the results of |run|, whose process has ended, and releases its ports and its temporary
-- directory. Returns |run|.
local function conclude(run)
  run.ports.free()
  remove_directory(run.directory)
  run.seconds = wait.now() - run.from
  local reports = sanitizer_reports(run)
  run.text = assert(read_file(run.log)) .. reports
  local passed, failed, rest = run.text:match ".*\n(%d+) passed, (%d+) failed([^\n]*)\n?"
  run.is_broken = reports ~= "" or run.process.signal ~= 0 and not run.is_late
  run.passed, run.failed = tonumber(passed or 0), tonumber(failed or 0)
  run.skipped = tonumber((rest or ""):match "(%d+) skipped" or 0)
  if run.failed == 0 and (not passed or run.process.code ~= 0 or reports ~= "") then
    -- busted ended too early or failed outside the tests, or a sanitizer has reported something
    run.failed = 1
    run.text = ("%s\n%s ended with code %d, signal %d%s\n"):format(run.text, run.file,
      run.process.code, run.process.signal, run.is_late and (" after %d s"):format(LONGEST) or "")
  end
  return run
end

-- ---- output -------------------------------------------------------------------

local began = wait.now()

local function say(text, ...)
  io.stdout:write(text:format(...), "\n")
  io.stdout:flush()
end

local function report(run, position)
  local seconds = math.floor(wait.now() - began)
  local counts = ("%d passed"):format(run.passed)
  if run.failed > 0 then counts = counts .. (", %d FAILED"):format(run.failed) end
  if run.skipped > 0 then counts = counts .. (", %d skipped"):format(run.skipped) end
  say("%7s %2d:%02d  %s: %s (%.1f s)", position, math.floor(seconds / 60), seconds % 60,
    run.file, counts, run.seconds)
  if VERBOSE or run.failed > 0 then say("%s", run.text) end
end

-- ---- all files ----------------------------------------------------------------

local interrupted = false -- set by a signal

-- Runs |files|, |jobs| at a time, and calls each(run) with the result of each file.
local function run_all(files, command, jobs, try, each)
  local running, next_file = {}, 1
  while next(running) or files[next_file] do
    while #running < jobs and files[next_file] do
      running[#running + 1] = start(files[next_file], command, try)
      next_file = next_file + 1
    end
    wait.sleep(0.02)
    if interrupted then error("interrupted", 0) end
    for i = #running, 1, -1 do
      local run = running[i]
      if not run.process.code and wait.now() > run.from + LONGEST then
        run.is_late = true
        proc.destroy(run.process)
      end
      if run.process.code then
        table.remove(running, i)
        each(conclude(run))
      end
    end
  end
end

-- ---- before the run -------------------------------------------------------------

-- On a quiet machine of two cores, JOBS processes that run this program at the same time take 0.06
-- s * JOBS.
local WORK = "local t = {} for i = 1, 7e5 do t[i % 1000] = tostring(i) end"

-- Returns the factor PATIENCE: 4 on a quiet machine of two cores, up to 16 on a busy or slow one.
local function measure_patience()
  local from, running = wait.now(), {}
  for i = 1, JOBS do running[i] = proc.spawn({ uv.exepath(), "-e", WORK }, {}) end
  for _, process in ipairs(running) do proc.wait(process, 60) end
  local quiet = 0.06 * JOBS
  return math.max(4, math.min(16, math.ceil(4 * (wait.now() - from) / quiet)))
end

local function assert_localhost()
  if not uv.getaddrinfo("localhost", nil, { socktype = "stream" }) then
    error("localhost cannot be resolved; the specs need this line in /etc/hosts: "
      .. "127.0.0.1 localhost", 0)
  end
end

local function main()
  local files, command = read_arguments()
  assert_localhost()
  local patience = tonumber(os.getenv "PATIENCE") or measure_patience()
  uv.os_setenv("PATIENCE", tostring(patience))
  say("%d spec files, %d at a time; patience %g", #files, JOBS, patience)
  local sum, done, again, flaky = { passed = 0, failed = 0, skipped = 0 }, 0, {}, {}
  local function count(run)
    for field in pairs(sum) do sum[field] = sum[field] + run[field] end
  end
  local function first(run)
    done = done + 1
    report(run, ("%d/%d"):format(done, #files))
    -- A busy machine causes neither a crash nor a sanitizer report: such files are not repeated.
    if run.failed > 0 and not run.is_broken and not FAIL_FAST then
      again[#again + 1] = run.file
    else
      count(run)
    end
    if FAIL_FAST and run.failed > 0 then error("stopped at the first failure", 0) end
  end
  local together, alone = split(files)
  run_all(together, command, JOBS, 1, first)
  run_all(alone, command, 1, 1, first)
  run_all(again, command, 1, 2, function(run)
    report(run, "again")
    count(run)
    if run.failed == 0 then flaky[#flaky + 1] = run.file end
  end)
  for _, file in ipairs(flaky) do say("flaky: %s", file) end
  say("\n%d passed, %d failed%s", sum.passed, sum.failed,
    sum.skipped > 0 and (", %d skipped"):format(sum.skipped) or "")
  return sum.failed == 0
end

local function clean_up()
  proc.shut_down()
  for path in pairs(directories) do os.execute("rm -rf '" .. path .. "'") end
end

-- The handlers only set a flag: within a luv callback, clean_up could not wait for processes.
for _, name in ipairs { "sigint", "sigterm", "sighup" } do
  uv.signal_start(uv.new_signal(), name, function() interrupted = true end)
end
local ok, good = xpcall(main, debug.traceback)
if not ok then io.stderr:write(good, "\n") end
clean_up()
os.exit(interrupted and 130 or ok and good and 0 or 1)
