-- The entrant etcdlock. Besides the fields in bench/README.md, its job has these:
--   linger   the option of the lock calls; nil: none
--   ttl      the option of connect; nil: the default
--   keep     true: each client also holds a lock of its own all the time
--   timeout  seconds to wait for a lock. Each owner then has its own client, and goes on if it does
--            not get the lock; this counts as failed unless the code is "timeout". nil: all owners
--            share a client, and a failure ends the program

local json = require "dkjson"
local etcdlock = require "etcdlock"
local owners = require "bench.peers.owners"

local job = json.decode(arg[1])
local options = { linger = job.linger }
job.times = true

local clients, kept, failed = {}, {}, 0

local function connect()
  local client = assert(etcdlock.connect {
    endpoints = job.endpoint, env = false, ttl = job.ttl,
  })
  clients[#clients + 1] = client
  if job.keep then kept[#kept + 1] = assert(client:lock(job.prefix .. "/kept/" .. #clients)) end
  return client
end

local shared = connect()

local new_pair = {}

function new_pair.lock(name)
  return function(work)
    local lock = assert(shared:lock(name, options))
    work()
    assert(lock:unlock())
  end
end

-- As lock, but with a client of its own and a timeout. The result of unlock does not matter.
local function timed_pair(name)
  local client = connect()
  return function(work)
    local lock, message, code = client:lock(name, { timeout = job.timeout })
    if not lock then
      if code ~= "timeout" then
        failed = failed + 1
        io.stderr:write(message, "\n")
      end
      return false
    end
    work()
    lock:unlock()
  end
end

-- Five names in one call.
function new_pair.several(name)
  local names = {}
  for i = 1, 5 do names[i] = name .. "/" .. i end
  return function(work)
    local lock = assert(shared:multi_lock(names))
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
local before = asked()
owners.serve(job, job.timeout and timed_pair or new_pair[job.work], function(answer, window)
  answer.requests = (asked() - before) / math.max(window.pairs, 1)
  before = asked()
  if job.marks then answer.holds = window.times end
  if job.timeout then
    answer.stall, answer.failed, answer.lost, failed = window.longest, failed, 0, 0
    for _, lock in ipairs(kept) do answer.lost = answer.lost + (lock:held() and 0 or 1) end
  end
end)
for _, client in ipairs(clients) do client:close() end
