-- A holder is killed, and cannot release its lock. When the TTL of its lease is over, etcd deletes
-- the key of the lock, and the next waiter gets the lock.

local etcdlock = require "etcdlock"
local start = require "examples.start"
local uv = require "luv"

local TTL = 2

local client = assert(etcdlock.connect { ttl = TTL })

if arg[1] == "victim" then
  local lock = assert(client:lock("crash", { timeout = 30 }))
  print(("the victim holds it with token %d, and is killed"):format(lock:token()))
  uv.kill(uv.os_getpid(), "sigkill")
end

start "victim" -- a process that runs this file
uv.run() -- until that process is dead

local from = uv.hrtime()
local lock = assert(client:lock("crash", { timeout = 30 }))
print(("the next one holds it with token %d, %.1f s after that; the TTL is %d s"):format(
  lock:token(), (uv.hrtime() - from) / 1e9, TTL))
lock:unlock()
client:close()
