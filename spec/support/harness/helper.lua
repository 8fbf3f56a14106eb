-- Loaded by busted before the specs. Installs the fixture. Checks after each spec file that it has
-- left no key, lease, thread or descriptor. Stops all servers and processes at the end of the run.

local busted = require "busted"
local fixture = require "spec.support.harness.fixture"
local matrix = require "spec.support.harness.matrix"
local leaks = require "spec.support.harness.leaks"
local suite = require "spec.support.harness.suite"

-- describe also makes luv open its own descriptors, before the first snapshot.
io.stdout:write(matrix.describe() .. "\n")
-- The specs must not use the variables for etcdctl in the environment of the user who runs the
-- suite.
matrix.export(matrix.variables())
-- gRPC core keeps one eventpoll and one eventfd for the life of the process.
require("etcdlock.core").connect({ endpoints = { "127.0.0.1:1" }, ttl = 2 }):close(0.1)

fixture.install()

local before

busted.subscribe({ "file", "start" }, function(file)
  local missing = matrix.missing(file.name)
  if missing then
    local function skip()
      busted.pending("this file: it needs " .. missing, function() end)
    end
    file.run = setmetatable({
      getTrace = file.run.getTrace, rewriteMessage = file.run.rewriteMessage,
    }, { __call = skip })
  end
  suite.begin_file(file.name)
  fixture.begin_file(file)
  before = leaks.snapshot()
  return nil, true
end)

busted.subscribe({ "file", "end" }, function(file)
  local ok, failure = pcall(function()
    fixture.end_file()
    suite.end_file(before)
  end)
  if not ok then
    busted.publish({ "error", "file" }, file, nil, failure, {})
  end
  return nil, true
end)

busted.subscribe({ "suite", "end" }, function()
  suite.stop()
  return nil, true
end, { priority = 1 })
