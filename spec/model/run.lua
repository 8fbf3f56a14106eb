-- Runs the model of the lease (lease_model.c) against src/protocol/lease_proof.c, which must break
-- no promise, and against each known mutant that the model must notice (spec/mutants/known.lua).
--
--   make model SCHEDULES=100000

local known = require "spec.mutants.known"
local patch = require "spec.mutants.patch"
local read_file = require "spec.support.harness.read_file"
local write_file = require "bench.write_file"

local RULE = "src/protocol/lease_proof.c"
local DIRECTORY = "build/model"
local SCHEDULES = tonumber(os.getenv "SCHEDULES") or 100000
-- Options of the model for the runs without a mutant: members of all versions of etcd; then, with
-- members of one version, also the snapshots that a member gets if it has missed 5,000 entries,
-- where each write raises the revision (bump=100).
local RUNS = {
  "", "versions=vulnerable snapshots=1 bump=100", "versions=fixed snapshots=1 bump=100",
}

-- Compiles the model with the rule in the file |rule|, and returns the path of the program.
local function compile(rule)
  local program = rule:gsub("%.c$", "")
  local command = ("%s -std=c11 -O2 -Wall -Wextra -Werror -Isrc -o %s spec/model/lease_model.c %s")
    :format(os.getenv "CC" or "cc", program, rule)
  assert(os.execute(command), "the model cannot be compiled with " .. rule)
  return program
end

-- Runs |program| with |options| and the seeds from |first| on (nil: 1). Returns whether no promise
-- was broken, and the last line that it has printed.
local function run(program, options, first)
  local out = program .. ".out"
  local status = os.execute(("%s %d %d %s >%s 2>&1")
    :format(program, first or 1, SCHEDULES, options, out))
  local text = assert(read_file(out))
  local line = text:match "([^\n]*)\n*$"
  assert(line:find "no promise broken" or line:find "breaks the promise", text)
  return status == true or status == 0, line
end

local passed, failed = 0, 0
local function report(is_right, text)
  passed, failed = passed + (is_right and 1 or 0), failed + (is_right and 0 or 1)
  print((is_right and "ok   " or "FAIL ") .. text)
end

os.execute("mkdir -p " .. DIRECTORY)
local rule = assert(read_file(RULE))
write_file(DIRECTORY .. "/rule.c", rule)
local program = compile(DIRECTORY .. "/rule.c")
for _, options in ipairs(RUNS) do
  local is_safe, line = run(program, options)
  report(is_safe, ("model %s: %s"):format(options, line))
end
for i, mutant in ipairs(known) do
  if mutant.model then
    local file = ("%s/mutant%d.c"):format(DIRECTORY, i)
    write_file(file, patch(rule, mutant))
    local is_safe, line = run(compile(file), mutant.model, mutant.from_schedule)
    report(not is_safe, ("mutant \"%s\": %s"):format(mutant.name, line))
  end
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
