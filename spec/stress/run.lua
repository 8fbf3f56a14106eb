-- Stress test: `run.lua SECONDS SEED [DIRECTORY...]`. Several clients, with several owners each,
-- acquire and release locks of all modes at random on a real etcd of three members, while faults
-- happen. The test checks what etcdlock promises (see holds.lua, waits.lua and counters.lua). It
-- prints one line with figures and the seed. If promises were broken, it also prints each, the
-- first five with the last events of their names, and exits with 1.
--
-- With directories, the only faults are upgrades of the members to the etcd in each directory, one
-- directory after the other, and kills of the leader. Then no hold may be lost either.

local Etcd = require "spec.support.servers.etcd"
local Random = require "spec.stress.random"
local administrator = require "spec.stress.administrator"
local clients = require "spec.stress.clients"
local counters = require "spec.stress.counters"
local faults = require "spec.stress.faults"
local history = require "spec.stress.history"
local holds = require "spec.stress.holds"
local leaks = require "spec.support.harness.leaks"
local loop = require "spec.stress.loop"
local owner = require "spec.stress.owner"
local plan = require "spec.stress.plan"
local proc = require "spec.support.programs.proc"
local record = require "spec.stress.record"
local snapshots = require "spec.stress.snapshots"
local trouble = require "spec.stress.trouble"
local upgrade = require "spec.stress.upgrade"
local waits = require "spec.stress.waits"

local unpack = table.unpack or unpack

local FIGURES = {
  "acquisitions", "lock", "read", "write", "permit", "multi", "leader", "timeout", "locked",
  "aborts", "dropped waits", "dropped holds", "max_hold", "downgrades", "increments", "breaks",
  "revocations", "deletions", "stops", "kills", "upgrades", "cuts", "isolations", "closes",
  "losses",
  "overlaps excused: taken", "overlaps excused: woken", "excused reads",
}

local seconds, seed, versions = tonumber(arg[1]), tonumber(arg[2]), { unpack(arg, 3) }
if not seconds or not seed then error("usage: run.lua SECONDS SEED [DIRECTORY...]", 0) end

-- ---- run --------------------------------------------------------------------------

local is_ending, is_over = false, false
local function has_ended() return is_ending end
local function never() return false end

local function look(snapshot)
  waits.look(snapshot)
  if snapshot then counters.check_values(snapshot.counters, snapshot.before) end
end

local function start(etcd, random)
  clients.start(etcd, random)
  snapshots.use(etcd)
  owner.use(random, has_ended)
  snapshots.follow(look, function() return is_over end)
  loop.each_tick(holds.check)
  loop.each_tick(waits.check)
  for i = 1, plan.CLIENTS do
    for number = 1, plan.OWNERS do owner.start(i, number) end
  end
  if versions[1] then
    upgrade.start(etcd, versions)
  else
    administrator.start(etcd, random, has_ended)
    trouble.start(etcd, random, has_ended)
  end
end

-- ---- end ----------------------------------------------------------------------------

-- Seconds after which all owners must have ended: the longest timeout of an acquisition, and the
-- time for which leftover keys may block others after the faults.
local DRAIN_MAX = plan.WAIT_MAX + 2 + plan.LEFT_MAX

local function drain()
  is_ending = true
  history.note("*", "the end begins")
  if not loop.run(function() return owner.running == 0 end, DRAIN_MAX) then
    history.violation("*", "%d owners have not ended after %.0f s", owner.running, DRAIN_MAX)
  end
end

-- Returns a description of the keys and leases in |etcd|; nil if there are none.
local function left(etcd)
  local keys, leases = etcd:keys(plan.PREFIX), etcd:leases()
  if not keys[1] and not leases[1] then return nil end
  return ("keys %s; leases %s"):format(table.concat(keys, " "), table.concat(leases, " "))
end

-- Closes all clients and checks that no key and no lease is left. Keys that a lost hold or an
-- unconfirmed close has left must end with their lease.
local function close(etcd)
  collectgarbage()
  collectgarbage()
  local patience = plan.TTL + plan.DELAY_MAX + 1 + plan.SLACK
  loop.run(never, patience)
  local is_calm = faults.calm() > patience
  local confirmed = clients.close_all()
  local found = left(etcd)
  if found and confirmed and is_calm then
    history.violation("*", "left after close: %s", found)
  end
  if found then
    history.note("*", "left after close: %s", found)
    loop.run(never, patience)
    found = left(etcd)
    if found then history.violation("*", "left after the TTL and the lock delay: %s", found) end
  end
end

-- Compares the counters in etcd with the acknowledged increments.
local function check_counters()
  local snapshot
  loop.spawn(function()
    snapshot = snapshots.read()
  end)
  loop.run(function() return snapshot end, 10)
  if snapshot then
    counters.check_end(snapshot.counters)
  else
    history.violation("*", "etcd does not answer at the end")
  end
end

local function run(etcd)
  local random = Random.new(seed)
  loop.on_error = function(failure) history.violation("*", "error: %s", failure) end
  start(etcd, random)
  loop.run(versions[1] and upgrade.is_done or never, seconds)
  if versions[1] then upgrade.check() end
  drain()
  close(etcd)
  is_over = true
  check_counters()
end

-- ---- the program ------------------------------------------------------------------

-- gRPC core keeps one eventpoll and one eventfd for the life of the process.
require("etcdlock.core").connect({ endpoints = { "127.0.0.1:1" }, ttl = 2 }):close(0.1)
-- With frequent snapshots, because etcd 3.6 does not start if entries of etcd 3.4 follow the last
-- snapshot in its log.
local etcd = Etcd.start {
  members = 3, tls = false, args = versions[1] and { "--snapshot-count", "100" },
}
local before = leaks.snapshot()
local ok, failure = xpcall(run, debug.traceback, etcd)
if not ok then history.violation("*", "error: %s", failure) end
clients.stop()
etcd:stop()
record.close()
if ok then
  ok, failure = pcall(leaks.assert_none_left, before)
  if not ok then history.violation("*", "%s", failure) end
end
proc.shut_down()
print(("%s, violations %d, late %.1f s (longest %.1f s), seed %d"):format(
  history.summary(FIGURES), history.violations, loop.stalled(), loop.longest, seed))
os.exit(history.violations == 0 and 0 or 1, true)
