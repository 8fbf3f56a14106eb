-- Programs in Go, on top of etcd's own client for it (spec/support/go).

local assert = require "luassert"
local proc = require "spec.support.programs.proc"

local M = {
  -- Why the stories about a program that build didn't give are left out.
  MISSING = "Go isn't here, with etcd's client for it: make test-go",
}

local MISSING_STATUS = 3 -- of build.sh

-- Builds spec/support/go/NAME.go. Returns start(...), which starts it with these arguments
-- and waits until it is ready; nil where Go isn't here.
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
