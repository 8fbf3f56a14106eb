-- The customers. All connect at the same time, half of them to each shop. For each customer this
-- program prints the milliseconds until the answer came, and the answer. A customer that gets no
-- answer, because its worker has died, connects again.
--
--   lua crowd.lua CUSTOMERS PORT PORT

local uv = require "luv"

local customers, ports = tonumber(arg[1]), { arg[2], arg[3] }
local TRIES, AGAIN_AFTER_MS = 5, 20

local function tell(from, answer)
  print(("%.3f %s"):format((uv.hrtime() - from) / 1e6, answer))
  io.stdout:flush()
end

local function come(port, from, tries)
  local connection, heard = uv.new_tcp(), ""

  local function leave(failure)
    connection:close()
    local answer = heard:match "^(.*)\n"
    if answer then
      tell(from, answer)
    elseif tries > 1 then
      uv.new_timer():start(AGAIN_AFTER_MS, 0, function() come(port, from, tries - 1) end)
    else
      tell(from, "error: " .. (failure or "no answer"))
    end
  end

  local ok, why = connection:connect("127.0.0.1", tonumber(port), function(failure)
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
  if not ok then -- no descriptor is left, for example
    leave(why)
  end
end

for i = 1, customers do
  come(ports[i % #ports + 1], uv.hrtime(), TRIES)
end
uv.run()
