--- The standard streams. Whoever has started us may have closed some of them; what we opened
-- next would get their numbers, a connection to etcd perhaps, and the command that we run
-- would read from that, or write to it.
local M = {}

local EBADF = 9

local standing_in = {} -- open for as long as we are

--- Has /dev/null stand in for those that are closed. Nothing may have been opened before.
function M.complete()
  for _, stream in ipairs { io.stdin, io.stdout, io.stderr } do
    local _, _, errno = stream:seek()
    if errno == EBADF then
      standing_in[#standing_in + 1] = assert(io.open("/dev/null", "r+"))
    end
  end
end

return M
