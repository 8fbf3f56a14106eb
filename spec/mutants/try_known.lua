-- Tries the known mutants (known.lua): each must apply, and be noticed by what it names.
--
--   make known-mutants ONLY="src/lock/entry.c 131" MOST=4 SEED=1
--
-- |ONLY| selects the mutants of these files, specs and regressions; with a file of the simulator,
-- also all that the simulator must notice; empty: all. Of these, at most |MOST| are tried, which
-- |SEED| selects; empty: all. spec/model/run.lua tries the mutants of the model.

local known = require "spec.mutants.known"
local patch = require "spec.mutants.patch"
local read_file = require "spec.support.harness.read_file"
local tree = require "spec.mutants.tree"

local LONGEST = 300 -- seconds for one spec file
local HISTORIES = 2500
local SIMULATOR = "make --no-print-directory build/simulation/simulation"

local function is_selected(mutant, only)
  if only == "" then return true end
  for word in only:gmatch "%S+" do
    if mutant.file == word or mutant.spec == word or tostring(mutant.regression) == word
      or mutant.simulator and word:find "^spec/simulation/" then
      return true
    end
  end
  return false
end

-- Returns the test of |spec| that fails; nil if none does, also if the file ends early.
local function failing_test(spec)
  if not tree.failing_spec(spec, LONGEST) then return nil end
  return tree.output():match "\n *FAIL ([^\n]+)"
end

-- Returns why |mutant| cannot be tried; nil if it can be. |text| is its patched file. Without this
-- check, the failures of such a mutant would count as noticed.
local function find_fault(mutant, text)
  if mutant.file:find "%.[ch]$" then
    local is_built = tree.build() and (not mutant.simulator or tree.succeeds(SIMULATOR))
    return not is_built and "it cannot be built: " .. tree.output() or nil
  elseif mutant.file:find "%.lua$" then
    local _, fault = (loadstring or load)(text, "=" .. mutant.file)
    return fault
  end
end

-- Returns the verdict on |mutant|, which is in the copy, and its cause. |text|: as for find_fault.
local function judge(mutant, text)
  local fault = find_fault(mutant, text)
  if fault then return "BROKEN ", fault end
  local by = mutant.simulator and tree.failing_history(mutant.histories or HISTORIES)
    or mutant.spec and failing_test(mutant.spec)
  return by and "noticed" or "MISSED ", by or mutant.spec or "the simulator"
end

-- Returns the mutants to try.
local function select()
  local only, most = os.getenv "ONLY" or "", tonumber(os.getenv "MOST")
  local list = {}
  for _, mutant in ipairs(known) do
    if not mutant.model and not mutant.gone and is_selected(mutant, only) then
      list[#list + 1] = mutant
    end
  end
  math.randomseed(tonumber(os.getenv "SEED") or 1)
  while #list > (most or #list) do table.remove(list, math.random(#list)) end
  return list
end

-- A patch that no longer applies fails the list, also if it is not tried now.
for _, mutant in ipairs(known) do
  if not mutant.gone then patch(assert(read_file(mutant.file)), mutant) end
end
local list = select()
local noticed, failed = 0, 0
if list[1] then tree.create() end
for _, mutant in ipairs(list) do
  local text = patch(assert(read_file(mutant.file)), mutant)
  local verdict, cause = tree.with(mutant.file, text, function() return judge(mutant, text) end)
  if verdict == "noticed" then noticed = noticed + 1 else failed = failed + 1 end
  print(("%s  %s (%s)"):format(verdict, mutant.name, cause))
  io.stdout:flush()
end
print(("%d passed, %d failed"):format(noticed, failed))
os.exit(failed == 0)
