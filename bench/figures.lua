-- Measures etcdlock on this machine, against a private etcd. Not a spec: run `make figures`. It
-- prints these figures, most with their limits:
--   - The time and the requests of a lock and its unlock without contention.
--   - The memory of the core for a held lock.
--   - The time from unlock() in one process to the return of lock() in another.
--   - The time from the kill of a holder until the next client holds the lock.
--   - How much later than its deadline a call returns while etcd is stopped.

local Etcd = require "spec.support.servers.etcd"
local core = require "etcdlock.core"
local etcdlock = require "etcdlock"
local handoff = require "spec.support.programs.handoff"
local measure = require "bench.measure"
local proc = require "spec.support.programs.proc"
local program = require "bench.program"
local wait = require "spec.support.harness.wait"

local KILLS = 20
local HOLDS = 600 -- number of holds of each contender
local CYCLES = 1000 -- number of pairs of lock and unlock without contention

local function say(...)
  print(string.format(...))
end

-- ---- a killed holder ----

local HOLDER = [[
  local endpoint, name = ...
  local client = assert(require("etcdlock").connect { endpoints = endpoint, ttl = 2 })
  print "ready"
  io.read()
  local lock = assert(client:lock(name))
  print(("held %.9f"):format(require("luv").hrtime() / 1e9))
  io.read()
  client:close()
]]

local function takeovers(etcd)
  local holders, successors, killed, times = {}, {}, {}, {}
  for i = 1, KILLS do
    holders[i] = proc.lua(HOLDER, etcd:endpoint(), "killed/" .. i)
    successors[i] = proc.lua(HOLDER, etcd:endpoint(), "killed/" .. i)
  end
  for i = 1, KILLS do
    holders[i]:expect "^ready"
    successors[i]:expect "^ready"
    holders[i]:send "take"
    holders[i]:expect "^held"
    successors[i]:send "take"
  end
  wait.eventually(function() return #etcd:keys "killed/" == 2 * KILLS end, 10, "all in the queue")
  wait.sleep(2) -- so that each client has renewed its lease, at a time that differs between clients
  for i = 1, KILLS do
    killed[i] = wait.now()
    holders[i]:kill "sigkill"
    wait.sleep(0.05)
  end
  for i = 1, KILLS do
    times[i] = tonumber((successors[i]:expect "^held (%S+)")) - killed[i]
    successors[i]:finish()
  end
  for i = 1, KILLS do
    holders[i]:wait()
    successors[i]:wait()
  end
  local text = {}
  for i = 1, KILLS do text[i] = string.format("%.2f", times[i]) end
  table.sort(times)
  say("A holder is killed, TTL 2 s: the next one holds after (limit 3 s)")
  say("  %s s", table.concat(text, " "))
  say("  %d runs, max %.2f s", KILLS, times[KILLS])
end

-- ---- hand-off ----

local function handoffs(etcd)
  local children, told, times = {}, {}, {}
  for i = 1, 2 do children[i] = handoff.contender(etcd:endpoint(), HOLDS) end
  for i = 1, 2 do children[i]:send "go" end
  for i = 1, 2 do told[i] = handoff.holds_of(children[i], HOLDS) end
  for _, list in ipairs(handoff.times(told)) do
    for _, time in ipairs(list) do times[#times + 1] = time end
  end
  say("Hand-off between two processes that hold for 0 ms: from unlock() in one to lock()")
  say("returned in the other (limit: p50 3 ms, p99 15 ms)")
  say("  %d hand-offs, %s", #times, measure.summary(times))
end

-- ---- no contention ----

-- The counters of client:stats() that are printed.
local COUNTED = { "enqueues", "tries", "looks", "deletes", "watches", "probes", "keepalives" }

local function uncontended(etcd)
  local client = assert(etcdlock.connect { endpoints = etcd:endpoint() })
  assert(assert(client:lock "alone"):unlock())
  local before = client:stats()
  local from = wait.now()
  for _ = 1, CYCLES do
    local lock = assert(client:lock "alone")
    assert(lock:unlock())
  end
  local took = wait.now() - from
  local after = client:stats()
  client:close()
  local parts = {}
  for _, field in ipairs(COUNTED) do
    local count = after[field] - before[field]
    if count > 0 then parts[#parts + 1] = string.format("%.0f %s", count, field) end
  end
  say("lock + unlock of a name that nobody else wants")
  say("  %d in %.2f s: %.0f/s, %.2f ms each", CYCLES, took, CYCLES / took, took / CYCLES * 1000)
  say("  %.0f RPCs, %.3f each: %s", after.rpcs - before.rpcs,
    (after.rpcs - before.rpcs) / CYCLES, table.concat(parts, ", "))
end

-- ---- memory ----

local function memory()
  say("A lock that is held (limit: 1,024 bytes of the core's structs)")
  say("  %d bytes; `make bench ROWS=held` tells of 10,000 of them", core.HOLD_SIZE)
end

-- ---- deadlines ----

-- Calls |call|. Returns by how many seconds it took longer than |limit| seconds.
local function lateness(limit, call)
  local from = wait.now()
  call()
  return wait.now() - from - limit
end

local function deadlines(etcd)
  local client = assert(etcdlock.connect { endpoints = etcd:endpoint(), ttl = 60 })
  local lock, second = assert(client:lock "held"), assert(client:lock "second")
  etcd:pause()
  local late = {}
  for i = 1, 20 do
    late[i] = lateness(i / 20, function() client:lock("silent", { timeout = i / 20 }) end)
  end
  late[21] = lateness(2, function() client:try_lock "silent" end)
  late[22] = lateness(2, function() lock:unlock() end)
  late[23] = lateness(5, function() second:put("silent", "v") end)
  late[24] = lateness(5, function() client:ping() end)
  late[25] = lateness(0.5, function() client:close() end)
  etcd:resume()
  table.sort(late)
  say("Calls to a stopped etcd: how much later than its deadline the latest returns (limit 250 ms)")
  say("  lock, try_lock, unlock, put, ping, close: %d calls, %.0f ms", #late, late[#late] * 1000)
end

-- ---- all of them ----

program(function()
  -- The specs run etcd without fsync. These figures need fsync, as in production.
  local etcd = Etcd.start { args = { "--unsafe-no-fsync=false" } }
  say("One member of etcd on this machine, with fsync; %s", jit and jit.version or _VERSION)
  uncontended(etcd)
  memory()
  handoffs(etcd)
  takeovers(etcd)
  deadlines(etcd)
end)
