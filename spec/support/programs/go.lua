-- Programs in Go, on top of etcd's own client for it (spec/support/go).

local assert = require "luassert"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local uv = require "luv"

local M = {
  -- Why the stories about a program that build didn't give are left out.
  MISSING = "Go isn't here, with etcd's client for it: make test-go",
}

local GOPATH = "/usr/share/gocode" -- Debian's packages
-- What the programs need of etcd, by its paths in etcd 3.4, and in 3.5: Debian 13's.
local OLD = { "go.etcd.io/etcd/clientv3", "go.etcd.io/etcd/contrib/recipes" }
local NEW = { "go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/client/v3/experimental/recipes" }

local function are_here(packages)
  for _, package in ipairs(packages) do
    if not uv.fs_stat(GOPATH .. "/src/" .. package) then return false end
  end
  local _, code = proc.run { "sh", "-c", "command -v go" }
  return code == 0
end

-- Builds spec/support/go/NAME.go. Returns start(...), which starts it with these arguments
-- and waits until it is ready; nil where Go isn't here.
function M.build(name)
  local packages = are_here(NEW) and NEW or are_here(OLD) and OLD
  if not packages then return nil end
  local program = "build/spec/go_" .. name
  local source = assert(read_file(("spec/support/go/%s.go"):format(name)))
  for i, package in ipairs(OLD) do
    source = source:gsub(package:gsub("%p", "%%%0"), packages[i])
  end
  local file = assert(io.open(program .. ".go", "w"))
  file:write(source)
  file:close()
  local _, failed, why = proc.run({ "go", "build", "-o", program, program .. ".go" }, {
    env = { GO111MODULE = "off", GOPATH = GOPATH }, seconds = 300,
  })
  assert.equal(0, failed, why)
  return function(...)
    local child = proc.talk { program, ... }
    child:expect "^ready"
    return child
  end
end

return M
