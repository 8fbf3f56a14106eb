-- etcdlock as an entrant: locks, or the put and delete that they can't be faster than.

local cjson = require "cjson"
local etcdlock = require "etcdlock"
local owners = require "bench.peers.owners"

local job = cjson.decode(arg[1])
local options = { linger = job.linger }

local clients = {}

local function connect()
  clients[#clients + 1] = assert(etcdlock.connect {
    endpoints = job.endpoint, env = false, handoff_time = job.handoff_time,
  })
  return clients[#clients]
end

local shared = connect()

local new_pair = {}

function new_pair.lock(name)
  local client, count = job.clients and connect() or shared, 0
  return function(work)
    count = count + 1
    local lock = assert(client:lock(job.fresh and name .. "/" .. count or name, options))
    work()
    assert(lock:unlock())
  end
end

-- The client's bare requests are those of a lock, so there has to be one.
function new_pair.put(name)
  local lock, key = nil, name .. "/floor"
  return function(work)
    lock = lock or assert(shared:lock(name))
    assert(lock:put(key, ""))
    work()
    assert(lock:delete(key))
  end
end

-- Requests about locks, of all clients, without those about a lease, or about keys that came
-- late.
local function asked()
  local sum = 0
  for _, client in ipairs(clients) do
    local stats = client:stats()
    sum = sum + stats.enqueues + stats.tries + stats.looks + stats.deletes + stats.watches
      + stats.calls
  end
  return sum
end

-- A window begins with a session that is there.
assert(assert(shared:lock(job.prefix .. "/first", options)):unlock())
owners.serve(job, new_pair[job.work], asked)
for _, client in ipairs(clients) do client:close() end
