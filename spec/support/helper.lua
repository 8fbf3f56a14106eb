-- Loaded by busted before the specs: looks after every spec file, and stops at
-- the end of the run what the specs have started.

local busted = require "busted"
local leaks = require "spec.support.leaks"
local proc = require "spec.support.proc"
local suite = require "spec.support.suite"

-- luv opens its own descriptors with the first process.
proc.run { "true" }
-- gRPC core keeps one eventpoll and one eventfd for the life of the process.
require("etcdlock.core").connect({ endpoints = { "127.0.0.1:1" }, ttl = 2 }):close(0.1)

local before

busted.subscribe({ "file", "start" }, function()
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
