-- Tests that the threads of a client accept no signals.

-- Regression 039. gRPC starts some of its threads with its first channel, and these did not block
-- signals. So a signal handler of the program could run on a gRPC thread, and a program that blocks
-- a signal to wait for it was killed by the signal.
local SIGTERM = 2 ^ (uv.constants.SIGTERM - 1)

-- Returns the names, by thread ID, of the threads of this process that do not block SIGTERM.
local function open_to_signals()
  local found = {}
  for number, status in pairs(tasks(uv.os_getpid(), "status")) do
    local blocked = tonumber(status:match "SigBlk:%s*%x*(%x%x%x%x)\n", 16)
    if math.floor(blocked / SIGTERM) % 2 == 0 then
      found[number] = status:match "Name:%s*(%C+)"
    end
  end
  return found
end

it("connect, ping and lock start no thread that accepts SIGTERM", function()
  local before = open_to_signals()
  assert.is_string(before[uv.os_getpid()])
  assert(client:ping())
  assert(client:lock "a"):unlock()
  assert.same(before, open_to_signals())
end)
