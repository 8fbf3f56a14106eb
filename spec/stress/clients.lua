-- The clients of the stress program, each behind a proxy of its own in front of every member. A
-- place, 1 to plan.CLIENTS, is a proxy with its current client: the proxy stays for the whole run,
-- and the client is replaced at times.

local Swallow = require "spec.support.servers.swallow"
local etcdlock = require "etcdlock"
local faults = require "spec.stress.faults"
local history = require "spec.stress.history"
local loop = require "spec.stress.loop"
local plan = require "spec.stress.plan"

local M = {}

local CLOSE_MAX = 0.5 -- seconds; a close that takes longer has given up waiting for etcd

local Client = {}
Client.__index = Client

-- The current client of each place, by place.
M.list = {}

local LOCK_DELAYS = { 0.5, plan.DELAY_MAX } -- by place; seconds
local proxies = {}
local isolated = {} -- by place: the time until which its data is discarded

-- Connects a client of the place |i| through its proxy and returns it. Fields: place, number (of
-- the client among those of the place), id ("cPLACE.NUMBER"), has_lock_delay, core (etcdlock's
-- client), semaphores (by name), is_closed, was_reached.
local function connect(i, number)
  local proxy = proxies[i]
  local lock_delay = LOCK_DELAYS[i]
  local self = setmetatable({ place = i, id = ("c%d.%d"):format(i, number), number = number },
    Client)
  self.has_lock_delay = lock_delay ~= nil
  self.core = assert(etcdlock.connect {
    endpoints = proxy.endpoints, ttl = plan.TTL, lock_delay = lock_delay,
    prefix = plan.PREFIX, loop = "luv", env = false, log = function() end,
  })
  self.semaphores = {}
  for name, n in pairs(plan.PERMITS) do
    self.semaphores[name] = assert(self.core:semaphore(name, n))
  end
  history.note("*", "client %s connects", self.id)
  return self
end

-- Starts the proxies in front of |etcd| and connects the clients.
function M.start(etcd, random)
  local endpoints = {}
  for i in ipairs(etcd.members) do endpoints[i] = etcd:endpoint(i) end
  for i = 1, plan.CLIENTS do
    proxies[i] = Swallow.start(endpoints)
    proxies[i]:jitter(0, 0.05, random:whole(1, 1000000))
    M.list[i] = connect(i, 1)
  end
end

-- Closes |self|, which may block for a moment. Returns true if etcd has confirmed the close.
function Client:close()
  self.is_closed = true
  local from = loop.now()
  history.note("*", "client %s closes", self.id)
  local ok = self.core:close()
  if ok ~= true then history.violation("*", "close of %s answers %s", self.id, tostring(ok)) end
  history.note("*", "client %s is closed after %.3f s", self.id, loop.now() - from)
  return loop.now() - from < CLOSE_MAX
end

-- Closes the client of the place |i| and connects another one.
function M.renew(i)
  local old = M.list[i]
  M.list[i] = connect(i, old.number + 1)
  old:close()
end

-- Closes all clients. Returns true if etcd has confirmed each close.
function M.close_all()
  local confirmed = true
  for _, client in ipairs(M.list) do confirmed = client:close() and confirmed end
  return confirmed
end

function M.stop()
  for _, proxy in ipairs(proxies) do proxy:stop() end
end

-- ---- faults of the network -------------------------------------------------------

-- Gives the client of the place |i| another range of latencies, in seconds, in each direction.
function M.set_latency(i, low, high)
  history.note("*", "place %d: latency %.3f to %.3f s", i, low, high)
  proxies[i]:jitter(low, high)
end

-- Cuts all connections of the place |i|.
function M.cut(i)
  faults.begin("place %d: connections are cut", i)
  proxies[i]:cut()
  faults.finish("place %d: may connect", i)
end

-- Discards all data of the place |i| for |seconds|.
function M.isolate(i, seconds)
  faults.begin("place %d: isolated for %.1f s", i, seconds)
  proxies[i]:swallow()
  isolated[i] = loop.now() + seconds
  loop.after(seconds, function()
    proxies[i]:forward()
    faults.finish("place %d: connected again", i)
  end)
end

-- Returns the seconds for which |self| is still isolated; 0: it is not.
function Client:isolation()
  return math.max(0, (isolated[self.place] or 0) - loop.now())
end

-- ---- acquisitions ------------------------------------------------------------------

local METHODS = {
  lock = "lock", read = "read_lock", write = "write_lock", multi = "multi_lock", permit = "lock",
  leader = "campaign",
}

local PREFIXES = { try = "try_", with = "with_" }

-- Calls the method that acquires |names| in |mode| with |opts|. |form| is "try", "async", "wait",
-- or "with", which calls run(lock).
function Client:acquire(form, mode, names, opts, run)
  local method = (PREFIXES[form] or "") .. METHODS[mode] .. (form == "async" and "_async" or "")
  if mode == "permit" then
    local semaphore = self.semaphores[names[1]]
    return semaphore[method](semaphore, opts, run)
  elseif mode == "leader" then
    local election = assert(self.core:election(names[1]))
    local says = opts.value
    opts.value = nil
    if form == "with" then method = "with_leadership" end
    return election[method](election, says, opts, run)
  end
  return self.core[method](self.core, mode == "multi" and names or names[1], opts, run)
end

return M
