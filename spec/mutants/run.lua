-- Mutation testing: changes files in random places, one place at a time, and reports the changes
-- that neither the simulator nor a spec notices.
--
--   make mutants FILES="src/lock/session.c" SEED=1 N=20 LIMIT=12
--
-- The changes are made in a copy of the checkout. For each change, the simulator is tried if it
-- contains the file, and then at most LIMIT specs that run the changed line; those that run most
-- lines of the file come first.

local coverage = require "spec.mutants.coverage"
local operators = require "spec.mutants.operators"
local read_file = require "spec.support.harness.read_file"
local tree = require "spec.mutants.tree"

local LONGEST = 120 -- seconds for one spec file
local HISTORIES = 5000

local function number_of(name, default)
  local text = os.getenv(name)
  if not text or text == "" then return default end
  return assert(tonumber(text), name .. " is not a number")
end

local SEED, N, LIMIT = number_of("SEED", 1), number_of("N", 20), number_of("LIMIT", 12)

local function say(text, ...)
  io.stdout:write(text:format(...), "\n")
  io.stdout:flush()
end

-- ---- the places ---------------------------------------------------------------------

local function lines_of(text)
  local lines = {}
  for line in text:gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  return lines
end

local function read_files()
  local files = {}
  for file in (os.getenv "FILES" or ""):gmatch "%S+" do
    assert(read_file(file), file .. ": there is no such file")
    files[#files + 1] = file
  end
  assert(files[1], 'usage: make mutants FILES="src/lock/session.c" SEED=1 N=20 LIMIT=12')
  return files
end

-- Returns all mutants of |files|: { file =, number =, description =, text =, was = }. |was| is
-- the line before the change.
local function all_mutants(files)
  local list = {}
  for _, file in ipairs(files) do
    local lines = lines_of(assert(read_file(file)))
    for number = 1, #lines do
      for _, mutant in ipairs(operators.of_line(file, lines, number)) do
        list[#list + 1] = {
          file = file, number = number, description = mutant[1], text = mutant[2],
          was = lines[number],
        }
      end
    end
  end
  return list
end

-- ---- one mutant -----------------------------------------------------------------------

-- Returns the specs to try for |mutant|, and the number of all specs that run its line.
local function specs_for(mutant, specs)
  local list = {}
  for spec, covered in pairs(specs) do
    if covered.lines[mutant.number] then list[#list + 1] = spec end
  end
  table.sort(list, function(a, b)
    if specs[a].count ~= specs[b].count then return specs[a].count > specs[b].count end
    return a < b
  end)
  local count = #list
  for i = count, LIMIT + 1, -1 do list[i] = nil end
  return list, count
end

-- Returns the name of the test that notices |mutant|. If no test notices it, returns nil and a text
-- that says what was tried. If the mutant cannot be built, returns false.
local function judge(mutant, specs)
  local is_c, tried = mutant.file:find "%.c$", {}
  if is_c and not tree.build() then return false end
  if is_c and not tree.succeeds "make -q build/simulation/simulation" then
    if tree.failing_history(HISTORIES) then return "the simulator" end
    tried[1] = "the simulator"
  end
  local list, count = specs_for(mutant, specs)
  if list[1] then
    local failing = tree.failing_spec(table.concat(list, " "), LONGEST)
    if failing then return failing end
    tried[#tried + 1] = ("%d of the %d specs that run the line"):format(#list, count)
  end
  return nil, tried[1] and table.concat(tried, ", ") or "no test runs the line"
end

-- Tries |mutant|. Results are those of judge.
local function try(mutant, specs)
  local lines = lines_of(assert(read_file(mutant.file)))
  lines[mutant.number] = mutant.text
  return tree.with(mutant.file, table.concat(lines, "\n") .. "\n", function()
    return judge(mutant, specs)
  end)
end

-- ---- all of them ------------------------------------------------------------------------

local files = read_files()
coverage.measure(files)
local specs = {}
for _, file in ipairs(files) do specs[file] = coverage.of(file) end
tree.create()

math.randomseed(SEED)
local pool, noticed, survived = all_mutants(files), 0, 0
while noticed + survived < N and pool[1] do
  local mutant = table.remove(pool, math.random(#pool))
  local by, tried = try(mutant, specs[mutant.file])
  local place = ("%s:%d: %s"):format(mutant.file, mutant.number, mutant.description)
  if by then
    noticed = noticed + 1
    say("noticed   %s (%s)", place, by)
  elseif by == nil then
    survived = survived + 1
    say("SURVIVED  %s (%s)\n            %s", place, tried, mutant.was:match "^%s*(.*)$")
  end
end
say("%d mutants with seed %d: %d noticed, %d survived", noticed + survived, SEED, noticed, survived)
