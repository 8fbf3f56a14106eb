-- Tests that close leaves no descriptor if a member answers after it.

-- Regression 012. A client was closed when a member had accepted its connection but had sent
-- nothing yet. If the member sent its HTTP/2 greeting later, while another client of the process
-- was open, a descriptor and threads of gRPC were left for good.

-- Regression 070. If a client was closed while a member accepted connections but sent nothing, the
-- client tried to connect for 2 s more. If the member sent its HTTP/2 greeting to the last of these
-- connections, while another client of the process was open, a descriptor and threads of gRPC were
-- left for good.

local function io_threads()
  local count = 0
  for _, name in pairs(leaks.snapshot().threads) do
    if name == "etcdlock-io" then count = count + 1 end
  end
  return count
end

-- Closes a client that has waited |seconds| for the greeting (the first attempt to connect ends
-- after 2.4 s), calls |await|(threads), and lets the member send its greeting. Asserts that no
-- descriptor is left. |threads|: the number of I/O threads without that of this client.
local function test(seconds, await)
  local lock = assert(other:lock "other")
  local late = Swallow.start(suite.endpoint())
  late:hold()
  local before, threads = leaks.snapshot(), io_threads()
  local closed = connect { endpoints = late:endpoint() }
  assert.is_nil((closed:lock("late", { timeout = seconds })))
  late:await_held()
  closed:close()
  await(threads)
  late:forward()
  -- gRPC is still in use, and may have started more threads.
  wait.eventually(function() return leaks.snapshot().fd_count <= before.fd_count end)
  assert.is_true(lock:check())
end

for _, seconds in ipairs { 0.1, 1.25, 2.7 } do
  local name = "close after %g s without an HTTP/2 greeting leaves no descriptor"
  it(name:format(seconds), function() test(seconds, function() end) end)
end

it("close leaves no descriptor if the attempt to connect ends after it", function()
  test(2.2, function() wait.sleep(0.5) end)
end)

it("close leaves no descriptor if a silent member answers after it", function()
  test(0.2, function(threads)
    wait.eventually(function() return io_threads() == threads end, 4, "end of the I/O thread")
  end)
end)
