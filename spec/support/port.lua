-- Free TCP ports of this host.

local uv = require "luv"

local M = {}

-- Below the ephemeral range: the kernel must not lend a port to somebody's
-- outgoing connection while its server is down.
local FIRST, LAST = 15000, 32000
local next_port = FIRST + uv.hrtime() / 1000 % (LAST - FIRST)
next_port = next_port - next_port % 1

local function is_free(port)
  local socket = uv.new_tcp()
  local free = socket:bind("127.0.0.1", port) and socket:listen(1, function() end)
  socket:close()
  return free
end

-- One that nobody listens on, as a string; not the same again for a long time.
function M.free()
  for _ = FIRST, LAST do
    next_port = next_port < LAST and next_port + 1 or FIRST
    if is_free(next_port) then return ("%d"):format(next_port) end
  end
  error "no free port"
end

return M
