-- The entrant that takes a lock in Redis.

local json = require "dkjson"
local cqueues = require "cqueues"
local owners = require "bench.peers.owners"
local redis_lock = require "bench.peers.redis_lock"
local socket = require "cqueues.socket"
local uv = require "luv"

local job = json.decode(arg[1])
local host, port = job.endpoint:match "^(.*):(%d+)$"

-- Sends a command to Redis. Returns the answer, a number or a string; nil if Redis answers that
-- there is no value. Raises an error if the command fails.
local function ask(connection, ...)
  local parts = { ("*%d\r\n"):format(select("#", ...)) }
  for i = 1, select("#", ...) do
    local word = select(i, ...)
    parts[i + 1] = ("$%d\r\n%s\r\n"):format(#word, word)
  end
  assert(connection:write(table.concat(parts)))
  local kind, rest = assert(connection:read "*l"):match "^(.)(.-)\r?$"
  if kind == "-" then error("Redis: " .. rest, 0) end
  if kind == "$" then
    return rest ~= "-1" and assert(connection:read(tonumber(rest) + 2)):sub(1, -3) or nil
  end
  return tonumber(rest) or rest
end

local count = 0

local function new_pair(name)
  local connection = assert(socket.connect { host = host, port = port, nodelay = true })
  connection:setmode("bn", "bf")
  local release = ask(connection, "SCRIPT", "LOAD", redis_lock.release)
  count = count + 1
  local token = ("%d/%d"):format(uv.os_getpid(), count)
  return function(work)
    while not ask(connection, "SET", name, token, "NX", "PX", redis_lock.ttl_ms) do
      cqueues.sleep(redis_lock.retry)
    end
    work()
    assert(ask(connection, "EVALSHA", release, "1", name, token) == 1, "not ours any more")
  end
end

owners.serve(job, new_pair)
