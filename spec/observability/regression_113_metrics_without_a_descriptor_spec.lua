-- The module of the metrics was loaded with its first use. Without a free descriptor
-- client:metrics and join_metrics raised an error about a missing module.
-- Needs: no sanitizer.

local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local uv = require "luv"

it("regression 113: client:metrics and join_metrics need no free descriptor", function()
  local program = ([[
    local etcdlock = require "etcdlock"
    local client = assert(etcdlock.connect { endpoints = %q, env = false })
    local files = {}
    while true do
      local file = io.open "/dev/null"
      if not file then break end
      files[#files + 1] = file
    end
    local page = assert(client:metrics())
    print(etcdlock.join_metrics { page } == page)
  ]]):format(suite.endpoint())
  local out, code, err = proc.run({
    "sh", "-c", 'ulimit -n 60 && exec "$@"', "sh", uv.exepath(), "-e", program,
  }, { env = proc.lua_environment() })
  assert.same({ "true\n", 0 }, { out, code }, err)
end)
