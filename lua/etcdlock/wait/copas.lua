--- Waits in copas. One coroutine of this module watches the client's descriptor for all coroutines
-- that wait.
--
-- Each coroutine, the watching one too, waits in copas.receive for a Socket, an object that has the
-- methods of a LuaSocket socket. To wake a coroutine, its Socket is marked as woken. In its next
-- step copas sees that the Socket has data (`dirty`), and resumes the coroutine.
--
-- Before version 2.0.2, copas cannot tell whether its loop runs: then connect needs loop = "copas".
local copas = require "copas"
local coroutines = require "etcdlock.coroutines"
local loop = require "etcdlock.wait.loop"

local function nothing() end

local Socket = { settimeout = nothing, close = nothing }
Socket.__index = Socket

--- Returns the client's descriptor for the watcher and for a woken waiter; -1, which means none,
-- for any other waiter. LuaSocket's select calls `dirty` only for a Socket with a descriptor, and
-- copas resumes every coroutine whose Socket has a readable one. If all waiters returned the
-- descriptor, each wake-up would resume all of them.
function Socket:getfd()
  return (self.is_woken or self.is_watcher) and self.fd or -1
end

--- Returns true if the Socket has data that select cannot see: here, a wake-up.
function Socket:dirty()
  return self.is_woken
end

--- Returns true if the waiter is woken; nil, "timeout" otherwise, so that copas waits. If the
-- descriptor was readable, and in some versions also after 120 s, copas makes a second call. That
-- call returns true in any case, because the wait checks by itself whether its event has occurred.
function Socket:receive()
  local is_read = self.is_woken or self.was_called
  self.was_called = true
  return is_read or nil, "timeout"
end

-- See Wakeups:watch in waits.lua.
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
