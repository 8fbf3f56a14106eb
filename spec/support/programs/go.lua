-- Programs in Go, on top of etcd's own client for it (spec/support/go).

local assert = require "luassert"
local proc = require "spec.support.programs.proc"

local M = {
  -- Why the stories about a program that build didn't give are left out.
  MISSING = "Go isn't here, with etcd's client for it: make test-go",
}

local GOPATH = "/usr/share/gocode" -- Debian's packages
-- etcd's packages that the programs need.
local PACKAGES = { "clientv3/concurrency", "contrib/recipes" }

local function is_here()
  local command = "command -v go"
  for _, package in ipairs(PACKAGES) do
    command = ("%s && test -d %s/src/go.etcd.io/etcd/%s"):format(command, GOPATH, package)
  end
  local _, code = proc.run { "sh", "-c", command }
  return code == 0
end

-- Builds spec/support/go/NAME.go. Returns start(...), which starts it with these arguments
-- and waits until it is ready; nil where Go isn't here.
function M.build(name)
  local program = "build/spec/go_" .. name
  if not is_here() then return nil end
  local _, failed, why = proc.run({
    "go", "build", "-o", program, ("spec/support/go/%s.go"):format(name),
  }, { env = { GO111MODULE = "off", GOPATH = GOPATH }, seconds = 300 })
  assert.equal(0, failed, why)
  return function(...)
    local child = proc.talk { program, ... }
    child:expect "^ready"
    return child
  end
end

return M
