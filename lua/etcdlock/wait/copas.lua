--- copas: one coroutine watches the client's descriptor while others wait. Copas
-- knows sockets and nothing else, so each of them waits for a thing with a
-- socket's methods; a dirty one is read from in the loop's next turn. Copas before
-- 4 can't tell whether it runs: there this is for clients with loop = "copas".
local copas = require "copas"
local coroutines = require "etcdlock.coroutines"
local loop = require "etcdlock.wait.loop"

local function nothing() end

local Door = { settimeout = nothing, close = nothing }
Door.__index = Door

--- select looks at dirty only where there is a descriptor, and wakes everybody who shows one
-- that is readable: so those who wait for their own news show it only once these have come.
function Door:getfd()
  return (self.is_open or self.watches) and self.fd or -1
end

function Door:dirty()
  return self.is_open
end

--- Asked again, as copas took it for readable, it is: the wait looks itself if it is over.
function Door:receive()
  local is_read = self.is_open or self.was_asked
  self.was_asked = true
  return is_read or nil, "timeout"
end

local function watch(fd, deliver)
  local door, is_over = {}, false
  copas.addthread(function()
    while not is_over do
      door = setmetatable({ fd = fd, watches = true }, Door)
      copas.receive(door)
      deliver()
    end
  end)
  return function()
    is_over = true
    door.is_open = true
  end
end

return loop {
  is_here = function(chosen)
    return (copas.running or chosen == "copas") and coroutines.running() ~= nil
  end,
  suspend = function(park)
    park.door = setmetatable({ fd = park.wakeups:fd() }, Door)
    copas.receive(park.door)
  end,
  wake = function(park)
    if park.door then
      park.door.is_open = true
    end
  end,
  watch = watch,
}
