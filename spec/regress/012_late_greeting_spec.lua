-- A client that was closed while a member took its connection, but had not said a
-- word yet, left a descriptor and gRPC's threads for good if the member spoke
-- after that and another client of the process was there to hear it.
local clients = require "spec.support.clients"
local leaks = require "spec.support.leaks"
local proc = require "spec.support.proc"
local suite = require "spec.support.suite"
local wait = require "spec.support.wait"

local prefix = suite.prefix()
local connect = clients.connector(function()
  return { endpoints = suite.endpoints(), prefix = prefix }
end)

-- A way to etcd on which nothing passes until a line comes.
local SLOW = [[
  local uv, host, port = require "luv", ...
  local is_open, waiting = false, {}
  local function pump(from, to)
    from:read_start(function(failure, data)
      if failure or not data then
        for _, socket in ipairs { from, to } do
          if not socket:is_closing() then socket:close() end
        end
      elseif not to:is_closing() then
        to:write(data)
      end
    end)
  end
  local function forward(near)
    local far = uv.new_tcp()
    far:connect(host, tonumber(port), function()
      pump(near, far)
      pump(far, near)
    end)
  end
  local server = uv.new_tcp()
  assert(server:bind("127.0.0.1", 0))
  server:listen(16, function()
    local near = uv.new_tcp()
    server:accept(near)
    if is_open then forward(near) else waiting[#waiting + 1] = near end
    print "connected"
  end)
  local stdin = uv.new_pipe(false)
  stdin:open(0)
  stdin:read_start(function(_, data)
    if not data then os.exit(0) end
    is_open = true
    for _, near in ipairs(waiting) do forward(near) end
  end)
  print("port " .. server:getsockname().port)
  uv.run()
]]

after_each(clients.close_all)

it("leaves nothing", function()
  local other = connect()
  local lock = assert(other:lock "other")
  local child = proc.lua(SLOW, suite.endpoint():match "//(.*):(%d+)$")
  local port = child:expect "^port (%d+)"
  local before = leaks.snapshot()
  local closed = connect { endpoints = "http://127.0.0.1:" .. port }
  assert.is_nil((closed:lock("late", { timeout = 0.1 })))
  child:expect "^connected"
  closed:close()
  child:send "open"
  -- gRPC is still in use, and may have made itself more threads.
  wait.eventually(function() return leaks.snapshot().fd_count <= before.fd_count end)
  assert.is_true(lock:check())
  child:destroy()
end)
