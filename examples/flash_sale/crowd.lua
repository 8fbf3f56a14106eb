-- The customers. All come at the same time, an equal share of them to each shop. For each request
-- this program prints the path, the milliseconds until the answer came, and the answer. A request
-- that gets no answer, for example because its worker has died, is sent again, up to four times.
--
--   lua crowd.lua CUSTOMERS PATH PING_EVERY_MS PORT PORT
--
-- If PING_EVERY_MS is not 0, this program also sends a request for /ping every PING_EVERY_MS
-- milliseconds until all customers are served, even if earlier pings have no answer yet. So a
-- worker that is blocked delays all pings that it gets meanwhile, and their times show it.

local uv = require "luv"

local customers, path, ping_every_ms = tonumber(arg[1]), arg[2], tonumber(arg[3])
local ports = { arg[4], arg[5] }
local TRIES, AGAIN_AFTER_MS = 5, 20

-- Sends a request for `what`, prints the answer, and calls on_answer().
local function ask(port, what, on_answer, from, tries)
  local connection, heard = uv.new_tcp(), ""

  local function leave(failure)
    connection:close()
    local answer = heard:match "\r\n\r\n([^\n]*)"
    if not answer and tries > 1 then
      uv.new_timer():start(AGAIN_AFTER_MS, 0, function()
        ask(port, what, on_answer, from, tries - 1)
      end)
      return
    end
    print(("%s %.3f %s"):format(what, (uv.hrtime() - from) / 1e6,
      answer or "error: " .. (failure or "no answer")))
    io.stdout:flush()
    on_answer()
  end

  local ok, why = connection:connect("127.0.0.1", tonumber(port), function(failure)
    if failure then
      return leave(failure)
    end
    connection:write(("GET /%s HTTP/1.0\r\n\r\n"):format(what))
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

local timer, sent = uv.new_timer(), 0
if ping_every_ms > 0 then
  timer:start(0, ping_every_ms, function()
    sent = sent + 1
    ask(ports[sent % #ports + 1], "ping", function() end, uv.hrtime(), TRIES)
  end)
end

local served = 0
for i = 1, customers do
  ask(ports[i % #ports + 1], path, function()
    served = served + 1
    if served == customers then timer:close() end
  end, uv.hrtime(), TRIES)
end
uv.run()
