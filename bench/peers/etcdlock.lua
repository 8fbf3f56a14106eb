-- The entrant etcdlock. Besides the fields in bench/README.md, its job has these:
--   linger        the option of the lock calls; nil: none
--   handoff_time  the option of connect; nil: the default
--   clients       true: each owner has its own client; nil: all owners share a client
--   fresh         true: each pair takes a lock with a new name; nil: always the name of the owner

local json = require "dkjson"
local etcdlock = require "etcdlock"
local owners = require "bench.peers.owners"

local job = json.decode(arg[1])
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

-- The pair of the work "put": a put and a delete, to show the least time that two requests take.
-- The client has only guarded writes, so each owner takes a lock before its first pair and keeps
-- it.
function new_pair.put(name)
  local lock, key = nil, name .. "/floor"
  return function(work)
    lock = lock or assert(shared:lock(name))
    assert(lock:put(key, ""))
    work()
    assert(lock:delete(key))
  end
end

-- Returns how many requests about locks all clients have sent. Not counted are requests about
-- leases: keepalives, grants, revocations, audits, and checks that a lease is alive.
local function asked()
  local sum = 0
  for _, client in ipairs(clients) do
    local stats = client:stats()
    sum = sum + stats.enqueues + stats.tries + stats.looks + stats.deletes + stats.watches
      + stats.calls
  end
  return sum
end

-- The first lock creates the session, so that no window includes that.
assert(assert(shared:lock(job.prefix .. "/first", options)):unlock())
owners.serve(job, new_pair[job.work], asked)
for _, client in ipairs(clients) do client:close() end
