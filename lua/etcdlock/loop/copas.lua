--- copas: one coroutine watches the client's descriptor while others wait. Copas
-- knows sockets and nothing else, so each of them waits for a thing with a
-- socket's methods; a dirty one is read from in the loop's next turn.
--
-- Copas before 4 can't tell whether it runs, so there this is only for clients
-- that were connected with loop = "copas". Nor has it timers: the core's alarm
-- makes the descriptor readable instead.
local copas = require "copas"
local core = require "etcdlock.core"
local protect = require "etcdlock.protect"

local M = {}

-- ---- what looks like a socket ----

local Door = {}
Door.__index = Door

--- select looks at dirty only where there is a descriptor, and wakes everybody
-- who shows one that is readable: so those who wait for their own news show it
-- only once these have come.
function Door:getfd()
  return (self.is_open or self.watches) and self.fd or -1
end

function Door:dirty()
  return self.is_open
end

--- Asked again, because copas took it for readable, it is: the wait looks for
-- itself whether it is over.
function Door:receive()
  if self.is_open or self.was_asked then
    return true
  end
  self.was_asked = true
  return nil, "timeout"
end

function Door.settimeout() end

function Door.close() end

-- ---- the loop's interface ----

function M.is_here(hub)
  return (copas.running or hub.loop == "copas") and protect.running() ~= nil
end

--- Ends with the last wait, so that copas can end.
local function run(hub, watcher)
  while watcher.count > 0 and not watcher.closed do
    watcher.door = setmetatable({ fd = watcher.fd, watches = true }, Door)
    copas.receive(watcher.door)
    hub:deliver()
  end
  if not watcher.closed then
    hub.copas = nil
    hub:on_close("copas", nil)
  end
end

--- Has it look whether it shall go on.
local function stir(watcher)
  if watcher.door then
    watcher.door.is_open = true
  end
end

local function watch(hub, fd)
  local watcher = { fd = fd, count = 0 }
  hub.copas = watcher
  hub:on_close("copas", function()
    watcher.closed = true
    stir(watcher)
  end)
  return watcher
end

function M.wait(wait, seconds)
  local hub, door = wait.hub, setmetatable({}, Door)
  local id, message, code = hub:park(wait, function()
    door.is_open = true
  end, seconds and core.now() + seconds)
  if not id then
    return message, code
  end
  local watcher
  function wait.leave()
    wait.leave = nil
    if hub:leave(id, watcher) then
      stir(watcher)
    end
  end
  if wait.arm(id) then
    door.fd = hub.core:wake_fd()
    watcher = hub.copas or watch(hub, door.fd)
    watcher.count = watcher.count + 1
    if not watcher.runs then
      watcher.runs = true
      copas.addthread(function()
        run(hub, watcher)
      end)
    end
    copas.receive(door)
  end
  wait.leave()
end

return M
