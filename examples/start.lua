-- Returns a function that starts the running example as another process, with the given arguments.
-- The kernel kills that process when this process ends. If that process ends with an exit status
-- other than 0, this process exits with 1.

local uv = require "luv"

local script = arg[0]

io.stdout:setvbuf "line" -- because several processes write to the same output

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
