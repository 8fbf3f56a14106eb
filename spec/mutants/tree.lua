-- The copy of the checkout in which mutants are built and tried.

local read_file = require "spec.support.harness.read_file"
local uv = require "luv"
local write_file = require "bench.write_file"

local M = {}

local TREE = "build/mutants/tree"
local LOG = uv.cwd() .. "/build/mutants/log"
local BUILD = "make --no-print-directory TESTING=1 all nginx-module"

--- Runs |command| in the copy; true if it succeeds. M.output returns what it has printed.
function M.succeeds(command)
  local status = os.execute(("cd '%s' && %s >'%s' 2>&1 </dev/null"):format(TREE, command, LOG))
  return status == true or status == 0
end

--- Returns the output of the last command.
function M.output()
  return read_file(LOG) or ""
end

--- Builds the copy; true if that succeeds.
function M.build()
  return M.succeeds(BUILD)
end

--- Copies the checkout, and builds the copy. Raises if that fails.
function M.create()
  os.execute(("rm -rf '%s' && mkdir -p '%s'"):format(TREE, TREE))
  -- posix: the other formats round times, and make would take an old object for a new one
  os.execute("tar -c --format=posix --exclude=./build/mutants --exclude='./build/*-gcov'"
    .. " --exclude=./.git . | tar -x -C " .. TREE)
  assert(M.build() and M.succeeds "make --no-print-directory sim HISTORIES=500", "see " .. LOG)
end

--- Writes |text| in place of |file|, calls |check|, restores the file, and returns the results.
function M.with(file, text, check)
  local path = TREE .. "/" .. file
  write_file(path, text)
  local verdict, cause = check()
  write_file(path, assert(read_file(file)))
  return verdict, cause
end

--- Runs the specs |list|, separated by blanks. Returns nil if all pass; else the name of one that
-- fails, or "the suite".
function M.failing_spec(list, longest)
  local command = ("LONGEST=%d FAIL_FAST=1 make --no-print-directory TESTING=1 suite SPEC='%s'")
    :format(longest, list)
  if M.succeeds(command) then return nil end
  return M.output():match "%d+/%d+ +%S+ +(%S+): [^\n]-FAILED" or "the suite"
end

--- Runs |histories| of the simulator. Returns nil if it notices nothing; else a text with the
-- history and the promise that is broken, or that it ended early.
function M.failing_history(histories)
  local command = ("timeout 600 make --no-print-directory sim HISTORIES=%d"):format(histories)
  if M.succeeds(command) then return nil end
  return M.output():match "(history %d+ breaks[^\n]*)" or "the simulator ends early"
end

return M
