-- etcdlock as an entrant: locks, or the put and delete that they can't be faster than.

local cjson = require "cjson"
local etcdlock = require "etcdlock"
local owners = require "bench.peers.owners"

local job = cjson.decode(arg[1])
local client = assert(etcdlock.connect { endpoints = job.endpoint, env = false })
local options = { linger = job.linger }

local new_pair = {}

function new_pair.lock(name)
  return function(work)
    local lock = assert(client:lock(name, options))
    work()
    assert(lock:unlock())
  end
end

-- The client's bare requests are those of a lock, so there has to be one.
function new_pair.put(name)
  local lock, key = nil, name .. "/floor"
  return function(work)
    lock = lock or assert(client:lock(name))
    assert(lock:put(key, ""))
    work()
    assert(lock:delete(key))
  end
end

-- A window begins with a session that is there.
assert(assert(client:lock(job.prefix .. "/first", options)):unlock())
owners.serve(job, new_pair[job.work])
client:close()
