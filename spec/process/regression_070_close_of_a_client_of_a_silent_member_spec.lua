-- If a client was closed while a member accepted connections but sent nothing, the client tried to
-- connect for 2 s more. If the member sent its HTTP/2 greeting to the last of these connections,
-- while another client of the process was open, a descriptor and threads of gRPC were left for
-- good.
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

local function io_threads()
  local count = 0
  for _, name in pairs(leaks.snapshot().threads) do
    if name == "etcdlock-io" then count = count + 1 end
  end
  return count
end

it("regression 070: close leaves no descriptor if a silent member answers after it", function()
  local other = connect()
  local lock = assert(other:lock "other")
  local late = Swallow.start(suite.endpoint())
  finally(function() late:stop() end)
  late:hold()
  local before, threads = leaks.snapshot(), io_threads()
  local closed = connect { endpoints = late:endpoint() }
  assert.is_nil((closed:lock("late", { timeout = 0.2 })))
  closed:close()
  wait.eventually(function() return io_threads() == threads end, 4, "end of the I/O thread")
  late:forward()
  wait.eventually(function() return leaks.snapshot().fd_count <= before.fd_count end)
  assert.is_true(lock:check())
end)
