-- Free TCP ports of this host.

local uv = require "luv"

local M = {}

-- Below the ephemeral range: the kernel must not lend a port to somebody's
-- outgoing connection while its server is down.
local FIRST, LAST = 15000, 32000
local SHARE = 200 -- ports of one of several processes that run side by side

local first, last, next_port = FIRST, LAST, nil

local function is_free(port)
  local socket = uv.new_tcp()
  local free = socket:bind("127.0.0.1", port) and socket:listen(1, function() end)
  socket:close()
  return free
end

-- Those of SPEC_PORTS ("15000-15199"), if there is a share for us; else any,
-- beginning anywhere.
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

-- One that nobody listens on, as a string; not the same again for a long time.
function M.free()
  if not next_port then begin() end
  for _ = first, last do
    next_port = next_port < last and next_port + 1 or first
    if is_free(next_port) then return ("%d"):format(next_port) end
  end
  error "no free port"
end

-- A share for a process that is told so by SPEC_PORTS: its `range`, and free() to
-- give it back. Whoever has the UDP port of the first one has them all, whichever
-- run of the suite he belongs to.
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
