-- Loaded by busted before the specs: looks after every spec file, and stops at
-- the end of the run what the specs have started.

local busted = require "busted"
local cell = require "spec.support.harness.cell"
local leaks = require "spec.support.harness.leaks"
local suite = require "spec.support.harness.suite"

io.stdout:write(cell.describe() .. "\n") -- by which luv opens its own descriptors
-- A run tells nothing if it depends on its user's.
cell.export(cell.variables())
-- gRPC core keeps one eventpoll and one eventfd for the life of the process.
require("etcdlock.core").connect({ endpoints = { "127.0.0.1:1" }, ttl = 2 }):close(0.1)

local before

busted.subscribe({ "file", "start" }, function(file)
  local elsewhere = cell.elsewhere(file.name)
  if elsewhere then
    local function skip()
      busted.pending("this file: it runs in " .. elsewhere, function() end)
    end
    file.run = setmetatable({
      getTrace = file.run.getTrace, rewriteMessage = file.run.rewriteMessage,
    }, { __call = skip })
  end
  suite.begin_file(file.name)
  before = leaks.snapshot()
  return nil, true
end)

busted.subscribe({ "file", "end" }, function(file)
  local ok, failure = pcall(suite.end_file, file.name, before)
  if not ok then
    busted.publish({ "error", "file" }, file, nil, failure, {})
  end
  return nil, true
end)

busted.subscribe({ "suite", "end" }, function()
  suite.stop()
  return nil, true
end, { priority = 1 })
