-- TCP proxy in front of a server with these modes:
--   swallow  connections stay open and new ones are accepted, but all data is discarded
--   hold     new connections are accepted, but their data is kept until the mode ends
--   slow     data from the server is delayed

local proc = require "spec.support.programs.proc"

local Swallow = {}
Swallow.__index = Swallow

-- Runs in its own process, because a client that waits blocks the process of the test. Input lines:
-- "swallow", "hold", "forward", "slow 450" (milliseconds).
local PROXY = [[
  local uv, host, port = require "luv", ...
  local swallowing, swallowed, peers, holding, held = false, 0, {}, false, {}
  local slow_ms = 0

  local function close(...)
    for _, socket in ipairs { ... } do
      if not socket:is_closing() then socket:close() end
      peers[socket] = nil
    end
  end

  local function write(to, data)
    if not to:is_closing() then to:write(data) end
  end

  local function write_later(to, data)
    local timer = uv.new_timer()
    timer:start(slow_ms, 0, function()
      timer:close()
      write(to, data)
    end)
  end

  local function pump(from, to, is_answer)
    from:read_start(function(failure, data)
      if failure or not data then
        close(from, to)
      elseif swallowing then
        swallowed = swallowed + #data
      elseif is_answer and slow_ms > 0 then
        write_later(to, data)
      else
        write(to, data)
      end
    end)
  end

  local function forward(near)
    local far = uv.new_tcp()
    peers[near], peers[far] = far, near
    far:nodelay(true)
    near:nodelay(true)
    -- Data that arrives before the connection is established waits in the kernel.
    far:connect(host, tonumber(port), function(failure)
      if failure then return close(near, far) end
      pump(near, far)
      pump(far, near, true)
    end)
  end

  local function swallow(near)
    peers[near] = near
    near:read_start(function(failure, data)
      if failure or not data then
        close(near)
      else
        swallowed = swallowed + #data
      end
    end)
  end

  -- luv does not ignore SIGPIPE; a write to a closed connection must not end this process.
  uv.new_signal():start("sigpipe", function() end)

  local server = uv.new_tcp()
  assert(server:bind("127.0.0.1", 0))
  assert(server:listen(64, function()
    local near = uv.new_tcp()
    server:accept(near)
    if holding then
      held[#held + 1] = near
      print "held"
    elseif swallowing then
      swallow(near)
    else
      forward(near)
    end
  end))
  local stdin = uv.new_pipe(false)
  stdin:open(0)
  stdin:read_start(function(_, data)
    if not data then return os.exit(0) end
    for word, number in data:gmatch "(%a+) ?(%d*)" do
      if word == "slow" then
        slow_ms = tonumber(number)
      elseif word == "hold" then
        holding = true
      elseif word == "forward" then
        for _, near in ipairs(held) do forward(near) end
        holding, held = false, {}
        -- A connection whose data was discarded cannot continue.
        if swallowing then for socket in pairs(peers) do close(socket) end end
        swallowing = false
      else
        swallowing = true
      end
      print("done " .. swallowed)
    end
  end)
  print("port " .. server:getsockname().port)
  uv.run()
]]

-- Starts a proxy in front of |endpoint| ("http://host:port").
function Swallow.start(endpoint)
  local self = setmetatable({}, Swallow)
  self.child = proc.lua(PROXY, endpoint:match "//(.*):(%d+)$")
  self.address = "127.0.0.1:" .. self.child:expect "^port (%d+)"
  return self
end

function Swallow:endpoint()
  return "http://" .. self.address
end

-- Discards all data from now on. Returns the number of bytes discarded so far.
function Swallow:swallow()
  self.child:send "swallow"
  return tonumber((self.child:expect "^done (%d+)"))
end

-- Delays data from the server by |seconds| from now on.
function Swallow:slow(seconds)
  self.child:send(("slow %d"):format(seconds * 1000))
  self.child:expect "^done"
end

-- Holds new connections from now on.
function Swallow:hold()
  self.child:send "hold"
  self.child:expect "^done"
end

-- Waits until a connection is held.
function Swallow:await_held()
  self.child:expect "^held"
end

-- Forwards data again, also of the held connections. If data was being discarded, closes the
-- existing connections. Returns the number of bytes discarded so far.
function Swallow:forward()
  self.child:send "forward"
  return tonumber((self.child:expect "^done (%d+)"))
end

function Swallow:stop()
  self.child:destroy()
end

return Swallow
