-- A way to a server which can begin to swallow what is sent: connections stay
-- open and new ones are accepted, but no byte gets through any more. Or to hold
-- new connections: they are accepted, and what is sent waits. Or to be slow: what
-- the server says comes later.

local proc = require "spec.support.programs.proc"

local Swallow = {}
Swallow.__index = Swallow

-- In a process of its own: clients block theirs. Input: "swallow", "hold",
-- "forward", "slow 450" (milliseconds).
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
    -- What comes meanwhile waits in the kernel.
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

  -- One who closes his end while we write must not end us: luv leaves that to us.
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
        -- Whoever was swallowed has lost his thread.
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

-- A way to |endpoint| ("http://host:port").
function Swallow.start(endpoint)
  local self = setmetatable({}, Swallow)
  self.child = proc.lua(PROXY, endpoint:match "//(.*):(%d+)$")
  self.address = "127.0.0.1:" .. self.child:expect "^port (%d+)"
  return self
end

function Swallow:endpoint()
  return "http://" .. self.address
end

-- From now on nothing gets through. Returns the bytes that were swallowed so far.
function Swallow:swallow()
  self.child:send "swallow"
  return tonumber((self.child:expect "^done (%d+)"))
end

-- From now on what the server says comes |seconds| later.
function Swallow:slow(seconds)
  self.child:send(("slow %d"):format(seconds * 1000))
  self.child:expect "^done"
end

-- From now on new connections are held.
function Swallow:hold()
  self.child:send "hold"
  self.child:expect "^done"
end

-- Waits until one is.
function Swallow:await_held()
  self.child:expect "^held"
end

-- From now on connections get through, those that were held, too; those that were
-- swallowed are closed.
function Swallow:forward()
  self.child:send "forward"
  return tonumber((self.child:expect "^done (%d+)"))
end

function Swallow:stop()
  self.child:destroy()
end

return Swallow
