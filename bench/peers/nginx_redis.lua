-- A Redis client for nginx, with only what the row nginx needs. Debian does not contain
-- lua-resty-redis.

local ADDRESS = os.getenv "REDIS"
local TIMEOUT_MS, IDLE_MS = 5000, 60000

-- Reads an answer of Redis from `socket`. The first byte of an answer is its type. Returns the
-- answer, a string; nil if the value does not exist. If Redis answers an error, raises it.
local function read(socket)
  local line = assert(socket:receive "*l")
  local kind, rest = line:match "^(.)(.*)$"
  if kind == "-" then
    error("Redis: " .. rest, 0)
  elseif kind == "$" and rest ~= "-1" then
    return (assert(socket:receive(tonumber(rest) + 2)):gsub("\r\n$", ""))
  end
  return kind ~= "$" and rest or nil
end

--- Sends a command to Redis, as in redis("SET", "stock", 1). Returns the answer of Redis, a string;
-- nil if the value does not exist. Raises an error if the command fails.
return function(...)
  local command = { ("*%d\r\n"):format(select("#", ...)) }
  for _, word in ipairs { ... } do
    word = tostring(word)
    command[#command + 1] = ("$%d\r\n%s\r\n"):format(#word, word)
  end
  local socket = ngx.socket.tcp()
  socket:settimeout(TIMEOUT_MS)
  assert(socket:connect(ADDRESS))
  assert(socket:send(command))
  local answer = read(socket)
  socket:setkeepalive(IDLE_MS)
  return answer
end
