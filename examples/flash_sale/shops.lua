-- Opens the shops of a stage. Each function returns the ports of the shops when all of them answer.

local socket = require "socket"
local stage = require "flash_sale.stage"
local uv = require "luv"

local M = {}

-- ---- in plain Lua ---------------------------------------------------------------

-- Reserves a port on which all workers of one shop can listen. Returns the port, and the socket
-- that reserves it.
local function reserve_port()
  local place = assert(socket.tcp4())
  assert(place:setoption("reuseport", true))
  assert(place:bind("127.0.0.1", 0))
  local _, port = place:getsockname()
  return port, place
end

function M.lua(here, shops, workers)
  local ports, places, ready = {}, {}, 0
  for shop = 1, shops do
    ports[shop], places[shop] = reserve_port()
    for _ = 1, workers do
      stage.start(here .. "/worker.lua", { ports[shop] }, function() ready = ready + 1 end)
    end
  end
  stage.wait(function() return ready == shops * workers end, 30, "the shops open")
  for _, place in ipairs(places) do place:close() end
  return ports
end

-- ---- in nginx -------------------------------------------------------------------

-- Writes the nginx.conf of a shop into the directory `dir`: the file nginx.conf beside this one,
-- with values for its @NAMES@. The shop searches Lua modules in the same paths as this program.
local function write_conf(here, dir, port, workers)
  local values = {
    DIR = dir, HERE = here, PORT = port, WORKERS = workers,
    LUA_PATH = package.path, LUA_CPATH = package.cpath,
  }
  local out = assert(io.open(dir .. "/nginx.conf", "w"))
  for line in io.lines(here .. "/nginx.conf") do
    out:write(line:gsub("@([A-Z_]+)@", function(name)
      return values[name] and tostring(values[name])
    end), "\n")
  end
  out:close()
end

function M.nginx(here, shops, workers)
  local ports = {}
  for shop = 1, shops do
    local dir = ("%s/shop-%d"):format(stage.dir, shop)
    assert(uv.fs_mkdir(dir, tonumber("700", 8)))
    ports[shop] = stage.free_port()
    write_conf(here, dir, ports[shop], workers)
    -- nginx is stopped by TERM and not by KILL, because its master must end its workers.
    stage.spawn("nginx", { "nginx", "-p", dir, "-c", dir .. "/nginx.conf", "-e", "stderr" },
      { signal = "TERM" })
  end
  for _, port in ipairs(ports) do
    stage.wait(function() return stage.can_connect(port) end, 20, "nginx answers")
  end
  return ports
end

return M
