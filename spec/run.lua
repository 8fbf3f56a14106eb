-- Runs spec files side by side, each in a busted of its own, since they wait more
-- than they work; tells of each in one line, and at the very end
-- "N passed, N failed[, N skipped]". Files with the line "-- Runs alone: ..." come
-- after the others, one at a time: they measure what others would disturb.
--
--   lua spec/run.lua FILE|DIRECTORY... -- BUSTED...
--
-- The rest is in the environment:
--   JOBS       so many at a time
--   RETRY=1    a file that fails is run once more by itself at the end; if it
--              passes then, it counts as passed and is told of as "flaky: FILE"
--   REPORTS    a directory for what they print and what sanitizers report; a
--              report is a failure, even one of a child whose end nobody saw
--   V=1        shows all that they print, not only that of failures

local ports = require "spec.support.servers.port"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local JOBS = math.max(1, tonumber(os.getenv "JOBS") or 3)
local RETRY, VERBOSE = os.getenv "RETRY" == "1", os.getenv "V" == "1"
local REPORTS = assert(os.getenv "REPORTS", "REPORTS is not set")
-- A file that hangs must not take the others' time.
local LONGEST = 600 -- seconds
local MANY = 50
local SANITIZERS = { "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS" }

-- ---- which files --------------------------------------------------------------

local function entries(directory)
  local names = {}
  local scan = assert(uv.fs_scandir(directory))
  for name, kind in function() return uv.fs_scandir_next(scan) end do
    names[#names + 1] = { name = name, is_directory = kind == "directory" }
  end
  table.sort(names, function(a, b) return a.name < b.name end)
  return names
end

-- The spec files at |path|, added to |list|.
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

-- Those of |files| that are run side by side, and those that are run alone.
local function part(files)
  local together, alone = {}, {}
  for _, file in ipairs(files) do
    local list = assert(read_file(file)):find "\n%-%- Runs alone: " and alone or together
    list[#list + 1] = file
  end
  return together, alone
end

-- ---- one run of one file ------------------------------------------------------

local directories = {} -- of the files that run, for what they leave lying around

local function make_directory()
  local path = assert(uv.fs_mkdtemp((os.getenv "TMPDIR" or "/tmp") .. "/etcdlock-XXXXXX"))
  directories[path] = true
  return path
end

local function remove_directory(path)
  proc.run { "rm", "-rf", path }
  directories[path] = nil
end

-- Its own ports, directory, reports and log: it is one of several.
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
  local argv = {}
  for i, word in ipairs(command) do argv[i] = word end
  argv[#argv + 1] = file
  local log = assert(uv.fs_open(run.log, "w", tonumber("644", 8)))
  run.process = proc.spawn(argv, { nil, log, log }, { env = env })
  uv.fs_close(log)
  return run
end

-- Threads that end while leaks are looked for leave such lines, and no leak.
local GONE = {
  "^==%d+==Unable to get registers from thread %d+%.$",
  "^==%d+==Running thread %d+ was not suspended%. False leaks are possible%.$",
}

local function tells_of_gone(line)
  return line:find(GONE[1]) or line:find(GONE[2])
end

local function sanitizer_reports(run)
  local lines = {}
  for _, entry in ipairs(entries(run.reports)) do
    local text = assert(read_file(run.reports .. "/" .. entry.name))
    for line in text:gmatch "[^\n]+" do
      if not tells_of_gone(line) then lines[#lines + 1] = line end
    end
  end
  return table.concat(lines, "\n")
end

-- What came of |run|, which has ended.
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
    run.failed = 1 -- it did not come to its end, or did more than its tests told
    run.text = ("%s\n%s ended with code %d, signal %d%s\n"):format(run.text, run.file,
      run.process.code, run.process.signal, run.is_late and (" after %d s"):format(LONGEST) or "")
  end
  return run
end

-- ---- what is told -------------------------------------------------------------

local began = wait.now()

local function say(text, ...)
  io.stdout:write(text:format(...), "\n")
  io.stdout:flush()
end

local function tell(run, place)
  local seconds = math.floor(wait.now() - began)
  local counts = ("%d passed"):format(run.passed)
  if run.failed > 0 then counts = counts .. (", %d FAILED"):format(run.failed) end
  if run.skipped > 0 then counts = counts .. (", %d skipped"):format(run.skipped) end
  say("%7s %2d:%02d  %s: %s (%.1f s)", place, math.floor(seconds / 60), seconds % 60,
    run.file, counts, run.seconds)
  if VERBOSE or run.failed > 0 then say("%s", run.text) end
end

-- ---- all of them --------------------------------------------------------------

-- Calls each(run) with the result of each file, |jobs| of which run at a time.
local interrupted = false

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

local function main()
  local files, command = read_arguments()
  local sum, done, again, flaky = { passed = 0, failed = 0, skipped = 0 }, 0, {}, {}
  local function count(run)
    for field in pairs(sum) do sum[field] = sum[field] + run[field] end
  end
  say("%d spec files, %d at a time%s", #files, JOBS,
    #files > MANY and ", which takes 4 to 5 minutes on two cores" or "")
  local function first(run)
    done = done + 1
    tell(run, ("%d/%d"):format(done, #files))
    -- A crash and a sanitizer's report are no matter of a busy machine.
    if run.failed > 0 and RETRY and not run.is_broken then
      again[#again + 1] = run.file
    else
      count(run)
    end
  end
  local together, alone = part(files)
  run_all(together, command, JOBS, 1, first)
  run_all(alone, command, 1, 1, first)
  run_all(again, command, 1, 2, function(run)
    tell(run, "again")
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

-- Not here, within the loop: what is to be waited for would never come.
for _, name in ipairs { "sigint", "sigterm", "sighup" } do
  uv.signal_start(uv.new_signal(), name, function() interrupted = true end)
end
local ok, good = xpcall(main, debug.traceback)
if not ok then io.stderr:write(good, "\n") end
clean_up()
os.exit(interrupted and 130 or ok and good and 0 or 1)
