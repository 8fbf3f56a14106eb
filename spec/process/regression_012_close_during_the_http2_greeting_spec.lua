-- A client was closed when a member had accepted its connection but had sent nothing yet. If the
-- member sent its HTTP/2 greeting later, while another client of the process was open, a descriptor
-- and threads of gRPC were left for good.
local Swallow = require "spec.support.servers.swallow"
local clients = require "spec.support.harness.clients"
local leaks = require "spec.support.harness.leaks"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()
local connect = clients.connector(function()
  return { endpoints = suite.endpoints(), prefix = prefix }
end)

after_each(clients.close_all)

-- Closes a client that has waited |seconds| for the greeting; asserts that no descriptor is left.
-- After 1 s, gRPC connects for the second time.
local function tell(seconds)
  local other = connect()
  local lock = assert(other:lock "other")
  local late = Swallow.start(suite.endpoint())
  finally(function() late:stop() end)
  late:hold()
  local before = leaks.snapshot()
  local closed = connect { endpoints = late:endpoint() }
  assert.is_nil((closed:lock("late", { timeout = seconds })))
  late:await_held()
  closed:close()
  late:forward()
  -- gRPC is still in use, and may have started more threads.
  wait.eventually(function() return leaks.snapshot().fd_count <= before.fd_count end)
  assert.is_true(lock:check())
end

for _, seconds in ipairs { 0.1, 1.25, 2.3 } do
  it(("regression 012: close after %g s without an HTTP/2 greeting leaves no descriptor"):format(
    seconds), function() tell(seconds) end)
end
