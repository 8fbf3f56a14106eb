--- copas: one coroutine watches the client's descriptor while others wait. Copas waits for sockets
-- only, so each coroutine waits for an object with a socket's methods; copas reads from an object
-- that is dirty in its next step. Copas before 4 cannot tell whether it runs: there, this loop
-- needs loop = "copas".
local copas = require "copas"
local coroutines = require "etcdlock.coroutines"
local loop = require "etcdlock.wait.loop"

local function nothing() end

local Socket = { settimeout = nothing, close = nothing }
Socket.__index = Socket

--- Returns the descriptor, -1 for none. select looks at dirty only if there is a descriptor, and
-- wakes all objects whose descriptor is readable. So a waiter shows the descriptor only when it
-- is woken.
function Socket:getfd()
  return (self.is_woken or self.is_watcher) and self.fd or -1
end

function Socket:dirty()
  return self.is_woken
end

--- Succeeds if the waiter is woken. Copas calls it a second time only if the descriptor was
-- readable, and then it succeeds as well: the wait itself checks whether it is over.
function Socket:receive()
  local is_read = self.is_woken or self.was_called
  self.was_called = true
  return is_read or nil, "timeout"
end

local function watch(fd, deliver)
  local socket, is_over = {}, false
  copas.addthread(function()
    while not is_over do
      socket = setmetatable({ fd = fd, is_watcher = true }, Socket)
      copas.receive(socket)
      if not is_over then
        deliver()
      end
    end
  end)
  return function()
    is_over = true
    socket.is_woken = true
  end
end

return loop.new {
  is_here = function(chosen)
    return (copas.running or chosen == "copas") and coroutines.running() ~= nil
  end,
  suspend = function(waiter)
    waiter.socket = setmetatable({ fd = waiter.watcher.fd }, Socket)
    copas.receive(waiter.socket)
  end,
  wake = function(waiter)
    if waiter.socket then
      waiter.socket.is_woken = true
    end
  end,
  watch = watch,
}
