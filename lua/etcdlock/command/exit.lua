--- What the command's exit status tells, by the codes of the module. Those from 64 on are
-- those of sysexits.h, as far as it has one.
local M = {
  OK = 0,
  FAILED = 1,
  USAGE = 64,
  UNAVAILABLE = 69,
  LOST = 70,
  SYSTEM = 71,
  TIMEOUT = 75,
  PROTOCOL = 76,
  DENIED = 77,
  CONFLICT = 78,
  NOT_EXECUTABLE = 126,
  NOT_FOUND = 127,
  SIGNAL = 128, -- and its number
}

local BY_CODE = {
  invalid = M.USAGE,
  unavailable = M.UNAVAILABLE,
  no_space = M.UNAVAILABLE,
  lost = M.LOST,
  nomem = M.SYSTEM,
  timeout = M.TIMEOUT,
  locked = M.TIMEOUT,
  protocol = M.PROTOCOL,
  denied = M.DENIED,
  unauthenticated = M.DENIED,
  conflict = M.CONFLICT,
}

--- The status for a call of the module that was answered with nil, message, `code`.
function M.of(code)
  return BY_CODE[code] or M.FAILED
end

return M
