-- Builds and starts the Go programs in spec/support/go, with the modules of go.mod there, such as
-- etcd's Go client.

local assert = require "luassert"
local proc = require "spec.support.programs.proc"

local M = {
  -- Why a test is skipped if build returns nil.
  MISSING = "there is no Go program",
}

local MISSING_STATUS = 3 -- exit status of build.sh without a recent Go or without the modules

-- Builds spec/support/go/|name|.go. Returns the function start(...), which starts the program with
-- these arguments, waits until it is ready and returns the child. Returns nil, and sets M.MISSING,
-- if there is no recent Go, or no module proxy and no module cache.
function M.build(name)
  local program = "build/spec/go_" .. name
  local _, status, why = proc.run({
    "sh", "spec/support/go/build.sh", program, ("spec/support/go/%s.go"):format(name),
  }, { seconds = 600 })
  if status == MISSING_STATUS then
    M.MISSING = why:gsub("\n$", "")
    return nil
  end
  assert.equal(0, status, why)
  return function(...)
    local child = proc.talk { program, ... }
    child:expect "^ready"
    return child
  end
end

return M
