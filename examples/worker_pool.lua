-- Six workers, which could run on different machines, use an API that serves three requests at a
-- time and refuses more. A semaphore lets only three workers use the API at a time.
local etcdlock = require "etcdlock"
local socket = require "socket"
local start = require "examples.start"
local uv = require "luv"

local AT_ONCE = 3

local function work(worker, port)
  local client = assert(etcdlock.connect { timeout = 30 })
  local permits = assert(client:semaphore("api", AT_ONCE))
  for job = 1, 3 do
    local _, answer = assert(permits:with_lock(function()
      return assert(socket.connect("127.0.0.1", port)):receive "*a"
    end))
    print(("worker %s, job %d: %s"):format(worker, job, answer))
  end
  client:close()
end

if arg[1] then return work(arg[1], arg[2]) end

local api, busy = uv.new_tcp(), 0 -- the API, and its number of open requests
api:bind("127.0.0.1", 0)
assert(api:listen(128, function()
  local caller = uv.new_tcp()
  api:accept(caller)
  busy = busy + 1
  local answer = busy <= AT_ONCE and "200 OK" or "429 Too Many Requests"
  caller:write(("%s, %d at once"):format(answer, busy))
  uv.new_timer():start(100, 0, function()
    busy = busy - 1
    caller:close()
  end)
end))
api:unref()
for worker = 1, 6 do start(worker, api:getsockname().port) end -- processes that run this file
uv.run() -- until all six have ended
