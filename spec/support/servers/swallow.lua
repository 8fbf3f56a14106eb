-- TCP proxy in front of one server or several, with these modes:
--   swallow  connections stay open and new ones are accepted, but all data is discarded
--   hold     new connections are accepted, but their data is kept until the mode ends
--   mute     the connections of that moment stay open, but their data is discarded
--   slow     data from the servers is delayed
--   jitter   data in both directions is delayed by random times

local proc = require "spec.support.programs.proc"

local Swallow = {}
Swallow.__index = Swallow

-- The proxy runs in its own process, because a client that waits blocks the process of the test.
-- Its input consists of the lines "swallow", "mute", "hold", "forward", "cut", "slow 450" and
-- "jitter 0 50" (milliseconds), and "seed 4711".
local PROXY = [[
  local uv = require "luv"
  local swallowing, swallowed, peers, holding, held = false, 0, {}, false, {}
  local slow_ms, jitter_low, jitter_high = 0, 0, 0
  local connecting = {} -- sockets (keys); close leaves them open, because luv may crash
  local muted = {} -- sockets (keys) whose data is discarded
  local due = {} -- by socket: the time in ms before which no later data is written to it

  local function close(...)
    for _, socket in ipairs { ... } do
      if not socket:is_closing() and not connecting[socket] then socket:close() end
      peers[socket], due[socket], muted[socket] = nil, nil, nil
    end
  end

  local function write(to, data)
    if not to:is_closing() then to:write(data) end
  end

  -- Writes |data| after |ms|, and not before what was given earlier. Timers that are due at the
  -- same time fire in the order in which they were started.
  local function write_later(to, data, ms)
    if to:is_closing() then return end
    local now, timer = uv.now(), uv.new_timer()
    due[to] = math.max(due[to] or 0, now + ms)
    timer:start(due[to] - now, 0, function()
      timer:close()
      write(to, data)
    end)
  end

  local function delay_of(is_answer)
    local ms = is_answer and slow_ms or 0
    return jitter_high > 0 and ms + math.random(jitter_low, jitter_high) or ms
  end

  -- Is data for |to| still delayed?
  local function is_behind(to)
    return due[to] and due[to] >= uv.now()
  end

  local function pump(from, to, is_answer)
    from:read_start(function(failure, data)
      if failure or not data then
        close(from, to)
      elseif swallowing or muted[from] then
        swallowed = swallowed + #data
      else
        local ms = delay_of(is_answer)
        if ms > 0 or is_behind(to) then write_later(to, data, ms) else write(to, data) end
      end
    end)
  end

  local function forward(near, host, port)
    local far = uv.new_tcp()
    peers[near], peers[far] = far, near
    far:nodelay(true)
    near:nodelay(true)
    -- Data that arrives before the connection is established waits in the kernel.
    connecting[far] = true
    far:connect(host, tonumber(port), function(failure)
      connecting[far] = nil
      if failure or near:is_closing() then return close(near, far) end
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

  local function listen(own_port, host, port)
    local server = uv.new_tcp()
    assert(server:bind("127.0.0.1", tonumber(own_port)))
    assert(server:listen(64, function()
      local near = uv.new_tcp()
      server:accept(near)
      if holding then
        held[#held + 1] = { near, host, port }
        print "held"
      elseif swallowing then
        swallow(near)
      else
        forward(near, host, port)
      end
    end))
    return server:getsockname().port
  end

  local function close_all()
    local all = {}
    for socket in pairs(peers) do all[#all + 1] = socket end
    close((table.unpack or unpack)(all))
  end

  local stdin = uv.new_pipe(false)
  stdin:open(0)
  stdin:read_start(function(_, data)
    if not data then return os.exit(0) end
    for word, number, other in data:gmatch "(%a+) ?(%d*) ?(%d*)" do
      if word == "slow" then
        slow_ms = tonumber(number)
      elseif word == "jitter" then
        jitter_low, jitter_high = tonumber(number), tonumber(other)
      elseif word == "seed" then
        math.randomseed(tonumber(number))
      elseif word == "mute" then
        for socket in pairs(peers) do muted[socket] = true end
      elseif word == "cut" then
        close_all()
      elseif word == "hold" then
        holding = true
      elseif word == "forward" then
        for _, connection in ipairs(held) do forward((table.unpack or unpack)(connection)) end
        holding, held = false, {}
        -- A connection whose data was discarded cannot continue.
        if swallowing then close_all() end
        swallowing = false
      else
        swallowing = true
      end
      print("done " .. swallowed)
    end
  end)
  local arguments = { ... }
  for i = 1, #arguments, 3 do
    print("port " .. listen(arguments[i], arguments[i + 1], arguments[i + 2]))
  end
  uv.run()
]]

-- Starts a proxy in front of |endpoints|: one ("http://host:port"), or a list. The proxy has one
-- address for each endpoint; its field `endpoints` lists these addresses in the same order.
-- |own_port| is the port of the only address; nil: a free one for each.
function Swallow.start(endpoints, own_port)
  if type(endpoints) == "string" then endpoints = { endpoints } end
  local self, arguments = setmetatable({ endpoints = {} }, Swallow), {}
  for _, endpoint in ipairs(endpoints) do
    local host, port = endpoint:match "//(.*):(%d+)$"
    for _, word in ipairs { own_port or 0, host, port } do arguments[#arguments + 1] = word end
  end
  self.child = proc.lua(PROXY, (table.unpack or unpack)(arguments))
  for i in ipairs(endpoints) do
    self.endpoints[i] = "http://127.0.0.1:" .. self.child:expect "^port (%d+)"
  end
  self.address = self.endpoints[1]:match "//(.*)"
  return self
end

function Swallow:endpoint()
  return "http://" .. self.address
end

-- Sends |line| to the proxy. Returns the number of bytes discarded so far.
local function tell(self, line)
  self.child:send(line)
  return tonumber((self.child:expect "^done (%d+)"))
end

-- swallow  discards all data from now on
-- mute     discards the data of the present connections from now on, but not of new ones
-- cut      closes all connections that are not held
-- hold     holds new connections from now on
-- forward  forwards data again, also of the held connections; after swallow, closes all connections
-- Each returns the number of bytes discarded so far.
for _, word in ipairs { "swallow", "mute", "cut", "hold", "forward" } do
  Swallow[word] = function(self) return tell(self, word) end
end

-- Delays data from the server by |seconds| from now on.
function Swallow:slow(seconds)
  tell(self, ("slow %.0f"):format(seconds * 1000))
end

-- Delays data in each direction by |low| to |high| seconds from now on. If |seed|, a number, is not
-- nil, it determines the sequence of the delays.
function Swallow:jitter(low, high, seed)
  if seed then tell(self, ("seed %.0f"):format(seed)) end
  tell(self, ("jitter %.0f %.0f"):format(low * 1000, high * 1000))
end

-- Waits until a connection is held.
function Swallow:await_held()
  self.child:expect "^held"
end

function Swallow:stop()
  self.child:destroy()
end

return Swallow
