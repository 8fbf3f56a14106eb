-- A client that was closed while a member took its connection, but had not said a
-- word yet, left a descriptor and gRPC's threads for good if the member spoke
-- after that and another client of the process was there to hear it.
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

-- |seconds|: for how long it waited. After 1 s, gRPC had tried for the second time.
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
  -- gRPC is still in use, and may have made itself more threads.
  wait.eventually(function() return leaks.snapshot().fd_count <= before.fd_count end)
  assert.is_true(lock:check())
end

for _, seconds in ipairs { 0.1, 1.25, 2.3 } do
  it(("leaves nothing after %g s"):format(seconds), function() tell(seconds) end)
end
