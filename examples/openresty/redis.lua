-- As much of a Redis client as the sale needs. A real service takes
-- lua-resty-redis, which is not in Debian.

local ADDRESS = os.getenv "REDIS"
local TIMEOUT_MS, IDLE_MS = 5000, 60000

-- An answer says in its first byte what it is.
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

--- redis("SET", "stock", 1) → Redis's answer, a string, or nil if there is none.
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
