-- One worker of a shop without nginx: plain blocking Lua that serves one customer after the other.
-- shops.lua starts it:
--
--   lua worker.lua PORT

local HERE = arg[0]:match "^(.*)/"
package.path = HERE .. "/?.lua;" .. package.path

local shop = require "shop"
local socket = require "socket"

local counter = assert(socket.tcp4())
assert(counter:setoption("reuseport", true)) -- shared with the shop's other workers
assert(counter:bind("127.0.0.1", arg[1]))
assert(counter:listen(1024))
print "ready"
io.stdout:flush()

while true do
  local customer = assert(counter:accept())
  local serve = shop[(customer:receive() or ""):match "^GET /(%S*)"]
  customer:receive() -- the empty line at the end of the request
  customer:send(("HTTP/1.0 200 OK\r\n\r\n%s\n"):format(serve and serve() or "no such path"))
  customer:close()
end
