-- The customers: connect all at once, half of them to each shop, and print what
-- each of them is told, and after how many milliseconds.
--
--   lua crowd.lua CUSTOMERS PORT PORT

local uv = require "luv"

local customers, ports = tonumber(arg[1]), { arg[2], arg[3] }

local function come(port)
  local connection, from, heard = uv.new_tcp(), uv.hrtime(), ""

  local function leave(failure)
    connection:close()
    local answer = heard:match "^(.*)\n" or "error: " .. (failure or "no answer")
    print(("%.3f %s"):format((uv.hrtime() - from) / 1e6, answer))
    io.stdout:flush()
  end

  connection:connect("127.0.0.1", tonumber(port), function(failure)
    if failure then
      return leave(failure)
    end
    connection:write "buy\n"
    connection:read_start(function(broken, data)
      if data then
        heard = heard .. data
      else
        leave(broken)
      end
    end)
  end)
end

for i = 1, customers do
  come(ports[i % #ports + 1])
end
uv.run()
