-- Finds free TCP ports of this host.

local uv = require "luv"

local M = {}

-- Below the ephemeral range: while a server is down, the kernel must not give its port to an
-- outgoing connection.
local FIRST, LAST = 15000, 32000
local SHARE = 200 -- number of ports that reserve reserves for one process

local first, last, next_port = FIRST, LAST, nil

local function is_free(port)
  local socket = uv.new_tcp()
  local free = socket:bind("127.0.0.1", port) and socket:listen(1, function() end)
  socket:close()
  return free
end

-- Sets the range of ports: SPEC_PORTS ("15000-15199") if it is set; else all, starting at a random
-- one.
local function begin()
  local from, to = (os.getenv "SPEC_PORTS" or ""):match "^(%d+)%-(%d+)$"
  if from then
    first, last = tonumber(from), tonumber(to)
    next_port = last
  else
    next_port = FIRST + uv.hrtime() / 1000 % (LAST - FIRST)
    next_port = next_port - next_port % 1
  end
end

-- Returns a port on which no process listens, as a string. A port is returned again only after all
-- other ports of the range.
function M.free()
  if not next_port then begin() end
  for _ = first, last do
    next_port = next_port < last and next_port + 1 or first
    if is_free(next_port) then return ("%d"):format(next_port) end
  end
  error "no free port"
end

-- Reserves SHARE ports for a process. Returns { range: the value for its SPEC_PORTS, free(): ends
-- the reservation }. A range is reserved by binding the UDP port with the number of its first port,
-- which also excludes other runs of the suite.
function M.reserve()
  for from = FIRST, LAST - SHARE, SHARE do
    local mark = uv.new_udp()
    if mark:bind("127.0.0.1", from) then
      return {
        range = ("%d-%d"):format(from, from + SHARE - 1),
        free = function() mark:close() end,
      }
    end
    mark:close()
  end
  error "no free ports"
end

return M
