-- Builds and starts the Go programs in spec/support/go, which use etcd's Go client.

local assert = require "luassert"
local proc = require "spec.support.programs.proc"

local M = {
  -- Why a test is skipped if build returns nil.
  MISSING = "Go or etcd's Go client is not installed: run make test-go",
}

local MISSING_STATUS = 3 -- exit status of build.sh if Go or etcd's client is not installed

-- Builds spec/support/go/|name|.go. Returns the function start(...), which starts the program with
-- these arguments, waits until it is ready and returns the child. Returns nil if Go or etcd's Go
-- client is not installed.
function M.build(name)
  local program = "build/spec/go_" .. name
  local _, status, why = proc.run({
    "sh", "spec/support/go/build.sh", program, ("spec/support/go/%s.go"):format(name),
  }, { seconds = 300 })
  if status == MISSING_STATUS then return nil end
  assert.equal(0, status, why)
  return function(...)
    local child = proc.talk { program, ... }
    child:expect "^ready"
    return child
  end
end

return M
