-- Finds out which specs run which lines. For this the whole suite runs once, with a build that
-- counts how often each line runs. The counts stay in build/mutants until a spec or a file to be
-- mutated changes.

local read_file = require "spec.support.harness.read_file"
local uv = require "luv"

local M = {}

local DIRECTORY = "build/mutants/coverage"
local DONE = DIRECTORY .. "/done"

local function run(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "*a"
  pipe:close()
  return text
end

local function time_of(path)
  local stat = uv.fs_stat(path)
  return stat and stat.mtime.sec or 0
end

--- Measures the coverage unless that of |files| is known.
function M.measure(files)
  local is_known = time_of(DONE) > 0
    and run(("find spec -name '*_spec.lua' -newer '%s'"):format(DONE)) == ""
  for _, file in ipairs(files) do is_known = is_known and time_of(file) <= time_of(DONE) end
  if is_known then return end
  print "Measuring which specs run which lines: one run of the suite ..."
  os.execute("rm -rf " .. DIRECTORY .. " build/*-gcov && mkdir -p " .. DIRECTORY)
  -- A failure is ignored: a spec that fails has only incomplete counts, which matters to few
  -- mutants.
  os.execute(("make --no-print-directory SANITIZE=gcov COVERAGE='%s/%s' suite >%s/log 2>&1"):format(
    uv.cwd(), DIRECTORY, DIRECTORY))
  assert(io.open(DONE, "w")):close()
end

-- Adds to |lines| (line -> true) the lines of |file| that the spec with the counts in |directory|
-- has run.
local function read_c(lines, directory, file)
  local object = file:gsub("^src/", ""):gsub("%.c$", "")
  for _, build in ipairs { "5.4-gcov", "jit-gcov" } do
    local notes = ("build/%s/obj/%s"):format(build, object)
    local data = directory .. uv.cwd() .. "/" .. notes
    if uv.fs_stat(data .. ".gcda") then
      if not uv.fs_stat(data .. ".gcno") then
        uv.fs_symlink(("%s/%s.gcno"):format(uv.cwd(), notes), data .. ".gcno")
      end
      local text = run(("gcov --stdout '%s.gcda' 2>/dev/null"):format(data))
      local own = text:match("%f[^\n%z] *%-: *0:Source:" .. file:gsub("%p", "%%%0")
        .. "\n(.-)%f[^\n%z] *%-: *0:Source:") or text
      for count, number in own:gmatch "%f[^\n%z] *([%d*]+): *(%d+):" do
        if count ~= "0" then lines[tonumber(number)] = true end
      end
    end
  end
end

local function read_lua(lines, directory, file)
  for name in uv.fs_scandir_next, assert(uv.fs_scandir(directory)) do
    if name:find "^lua%-" then
      for path, number in assert(read_file(directory .. "/" .. name)):gmatch "([^\n:]+):(%d+)\n" do
        if path == file then lines[tonumber(number)] = true end
      end
    end
  end
end

--- Returns the coverage of |file|: spec file -> { lines = set of lines, count = how many }.
function M.of(file)
  local specs = {}
  for name in uv.fs_scandir_next, assert(uv.fs_scandir(DIRECTORY)) do
    local directory = DIRECTORY .. "/" .. name
    if name:find "_spec$" then
      local lines, count = {}, 0
      if file:find "%.c$" then
        read_c(lines, directory, file)
      else
        read_lua(lines, directory, file)
      end
      for _ in pairs(lines) do count = count + 1 end
      specs["spec/" .. name:gsub("%-", "/") .. ".lua"] = { lines = lines, count = count }
    end
  end
  return specs
end

return M
