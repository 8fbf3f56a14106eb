-- The entrant that takes a lock in Redis.

local json = require "dkjson"
local cqueues = require "cqueues"
local owners = require "bench.peers.owners"
local protocol = require "bench.peers.redis_protocol"
local redis_lock = require "bench.peers.redis_lock"
local socket = require "cqueues.socket"
local uv = require "luv"

local job = json.decode(arg[1])
local host, port = job.endpoint:match "^(.*):(%d+)$"

-- Sends a command to Redis. Returns the answer, a string; nil if Redis answers that there is no
-- value. Raises an error if the command fails.
local function ask(connection, ...)
  assert(connection:write(protocol.command(...)))
  local function read(what) return connection:read(what or "*l") end
  return protocol.read_answer(read, read)
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
    assert(ask(connection, "EVALSHA", release, 1, name, token) == "1", "not ours any more")
  end
end

owners.serve(job, new_pair)
