-- Starts the example again, as another process with these arguments. It ends when we
-- do, and if it fails, so do we.

local uv = require "luv"

local script = arg[0]

io.stdout:setvbuf "line" -- it is shared by all of them

return function(...)
  local words = { "--pdeathsig", "KILL", uv.exepath(), script }
  for _, word in ipairs { ... } do words[#words + 1] = tostring(word) end
  local process
  process = assert(uv.spawn("setpriv", { args = words, stdio = { nil, 1, 2 } }, function(code)
    process:close()
    if code ~= 0 then os.exit(1) end
  end))
  return process
end
