-- A Redis client for nginx, with only what the row nginx needs. Debian does not contain
-- lua-resty-redis.

local protocol = require "bench.peers.redis_protocol"

local ADDRESS = os.getenv "REDIS"
local TIMEOUT_MS, IDLE_MS = 5000, 60000

--- Sends a command to Redis, as in redis("SET", "stock", 1). Returns the answer of Redis, a string;
-- nil if the value does not exist. Raises an error if the command fails.
return function(...)
  local socket = ngx.socket.tcp()
  socket:settimeout(TIMEOUT_MS)
  assert(socket:connect(ADDRESS))
  assert(socket:send(protocol.command(...)))
  local function receive(what) return socket:receive(what or "*l") end
  local answer = protocol.read_answer(receive, receive)
  socket:setkeepalive(IDLE_MS)
  return answer
end
