-- Measures failures of members of an etcd cluster of three members on this machine: how long locks
-- stall, and whether a holder loses its lock. Not a spec: run `make failover`.

local Etcd = require "spec.support.servers.etcd"
local cluster = require "spec.support.servers.cluster"
local Swallow = require "spec.support.servers.swallow"
local program = require "bench.program"
local uv = require "luv"
local percentile = require("bench.measure").percentile
local proc = require "spec.support.programs.proc"
local wait = require "spec.support.harness.wait"

local KILLS = 10
local RESTARTS = 3
local CLIENTS = 8
local RATE = 200 -- lock cycles per second of all clients together
local HOLDERS = 4
local TTL = 5
local PERIOD = 7 -- minimum seconds from one kill to the next
local SLOW = 0.05 -- seconds; an acquire that took longer is printed

local function say(...)
  print(string.format(...))
  io.stdout:flush()
end

-- ---- clients ----------------------------------------------------------------

-- A program that takes and releases a lock at a steady rate until its standard input ends. It
-- prints each acquisition that took longer than `slow` seconds. At the end it prints the number of
-- cycles and the number of failed acquisitions.
local CYCLER = [[
  local endpoints, name, period, slow = ...
  local uv = require "luv"
  period, slow = tonumber(period), tonumber(slow)
  local client = assert(require("etcdlock").connect { endpoints = endpoints, ttl = 5 })
  assert(client:ping())
  local has_ended = require "bench.input_end"
  print "ready"
  local count, failed = 0, 0
  while not has_ended() do
    local from = uv.hrtime()
    local lock, message = client:lock(name, { timeout = 20 })
    local took = (uv.hrtime() - from) / 1e9
    if took > slow then print(("slow %.9f %.6f"):format(from / 1e9, took)) end
    if lock then
      lock:unlock()
    else
      failed = failed + 1
      print("failed " .. message)
    end
    count = count + 1
    local left = from / 1e6 + period * 1e3 - uv.hrtime() / 1e6
    if left >= 1 then uv.sleep(math.floor(left)) end
  end
  print(("end %d %d"):format(count, failed))
  client:close()
]]

-- A program that holds a lock until its standard input ends. Then it prints the minimum of
-- lock:remaining() in seconds, the reason for which the lock was lost ("on" if it was not lost),
-- and the time at which the program noticed the loss.
local HOLDER = [[
  local endpoints, name, ttl = ...
  local uv = require "luv"
  local client = assert(require("etcdlock").connect {
    endpoints = endpoints, ttl = tonumber(ttl),
  })
  local lock = assert(client:lock(name))
  local has_ended = require "bench.input_end"
  print "ready"
  local reason, lowest, at = nil, math.huge, 0
  while not has_ended() do
    if not reason then
      reason = lock:wait_lost(0.05)
      at = uv.hrtime() / 1e9
      lowest = math.min(lowest, lock:remaining())
    else
      uv.sleep(50)
    end
  end
  print(("held %.2f %s %.9f"):format(lowest, reason or "on", at))
  client:close()
]]

local function start_holders(endpoints, label)
  local list = {}
  for i = 1, HOLDERS do
    list[i] = proc.lua(HOLDER, endpoints, label .. "/held/" .. i, TTL)
  end
  for _, child in ipairs(list) do child:expect("^ready", 30) end
  return list
end

-- Ends |holders|, and prints how many lost their locks and the shortest remaining time of a hold.
-- |events| are the times of the failures; each loss is printed with the last failure before it.
local function end_holders(holders, events)
  local lost, lowest = 0, math.huge
  for _, child in ipairs(holders) do
    child:finish()
    local left, reason, at = child:expect("^held (%S+) (%S+) (%S+)", 20)
    lowest = math.min(lowest, tonumber(left))
    if reason ~= "on" then
      lost = lost + 1
      local number, since = 0, 0
      for i, event in ipairs(events) do
        if event <= tonumber(at) then number, since = i, tonumber(at) - event end
      end
      say("  lost: %s, %.2f s after number %d", reason, since, number)
    end
    child:wait()
  end
  say("  holders with a TTL of %d s: %d, lost %d (limit 0), at least %.2f s left", TTL, HOLDERS,
    lost, lowest)
end

local function start_cyclers(endpoints, label)
  local list = {}
  for i = 1, CLIENTS do
    list[i] = proc.lua(CYCLER, endpoints, label .. "/" .. i, CLIENTS / RATE, SLOW)
  end
  for _, child in ipairs(list) do child:expect("^ready", 30) end
  return list
end

-- Ends |cyclers|. Returns the list of all slow acquisitions ({ by, from, took }), the number of
-- cycles, and the number of failed acquisitions.
local function end_cyclers(cyclers)
  local slow, cycles, failed = {}, 0, 0
  for i, child in ipairs(cyclers) do
    child:wait(30)
    for _, line in ipairs(child.lines) do
      local from, took = line:match "^slow (%S+) (%S+)"
      local count, failures = line:match "^end (%d+) (%d+)"
      if from then
        slow[#slow + 1] = { by = i, from = tonumber(from), took = tonumber(took) }
      elseif count then
        cycles, failed = cycles + tonumber(count), failed + tonumber(failures)
      else
        say("  client %d: %s", i, line)
      end
    end
  end
  return slow, cycles, failed
end

-- ---- the figures ----------------------------------------------------------------

-- Returns a sorted list with one number for each client and each of |events|: the seconds of the
-- client's longest slow acquisition that ran at some time in the |seconds| after the event; 0 if
-- there is none.
local function stalls(events, slow, seconds)
  local list = {}
  for _, event in ipairs(events) do
    local longest = {}
    for i = 1, CLIENTS do longest[i] = 0 end
    for _, one in ipairs(slow) do
      if one.from + one.took >= event and one.from <= event + seconds then
        longest[one.by] = math.max(longest[one.by], one.took)
      end
    end
    for i = 1, CLIENTS do list[#list + 1] = longest[i] end
  end
  table.sort(list)
  return list
end

local function leader_kills(etcd)
  local endpoints = etcd:endpoints()
  local holders, cyclers = start_holders(endpoints, "kill"), start_cyclers(endpoints, "kill")
  local began, events, elected = wait.now(), {}, {}
  wait.sleep(2)
  for i = 1, KILLS do
    local leader = cluster.leader_of(etcd)
    local from = wait.now()
    events[#events + 1] = from
    etcd:kill(leader)
    cluster.leader_of(etcd)
    elected[i] = string.format("%.2f", wait.now() - from)
    wait.sleep(math.max(0, 4 - (wait.now() - from)))
    etcd:restart(leader)
    wait.sleep(math.max(1, PERIOD - (wait.now() - from)))
  end
  local took = wait.now() - began
  local slow, cycles, failed = end_cyclers(cyclers)
  local list = stalls(events, slow, PERIOD)
  local each = {}
  for i = 1, KILLS do
    local one = stalls({ events[i] }, slow, PERIOD)
    each[i] = string.format("%.2f", one[#one])
  end
  say("The leader is killed %d times, %d clients, %d cycles (%.0f/s), %d calls failed", KILLS,
    CLIENTS, cycles, cycles / took, failed)
  say("  etcd has another leader after:       %s s", table.concat(elected, " "))
  say("  the longest acquire after each kill: %s s", table.concat(each, " "))
  say("  the longest of each client after each kill: p50 %.2f s, p95 %.2f s, max %.2f s"
    .. " (limit: p95 2.5 s)", percentile(list, 50), percentile(list, 95), list[#list])
  end_holders(holders, events)
end

local function rolling_restarts(etcd)
  local endpoints = etcd:endpoints()
  local holders, cyclers = start_holders(endpoints, "roll"), start_cyclers(endpoints, "roll")
  local began, events = wait.now(), {}
  for _ = 1, RESTARTS do
    for i = 1, 3 do
      events[#events + 1] = wait.now()
      assert(uv.kill(etcd:pid(i), "sigterm"))
      proc.wait(etcd.members[i].process, 20)
      etcd:restart(i)
      cluster.await_health(etcd)
      wait.sleep(1)
    end
  end
  local took = wait.now() - began
  local slow, cycles, failed = end_cyclers(cyclers)
  local list = stalls(events, slow, 2)
  say("All members are restarted, one after the other, %d times: %d cycles (%.0f/s), %d calls"
    .. " failed", RESTARTS, cycles, cycles / took, failed)
  say("  the longest acquire of each client for each member: p50 %.2f s, p95 %.2f s, max %.2f s",
    percentile(list, 50), percentile(list, 95), list[#list])
  end_holders(holders, events)
end

local function silent_members(etcd)
  for _, which in ipairs { "a follower", "the leader" } do
    local leader = cluster.leader_of(etcd)
    local silent = which == "the leader" and leader or leader % 3 + 1
    local endpoints = cluster.endpoints_from(etcd, silent)
    local label = which == "the leader" and "stopleader" or "stop"
    local holders, cyclers = start_holders(endpoints, label), start_cyclers(endpoints, label)
    wait.sleep(1)
    local from = wait.now()
    etcd:pause(silent)
    wait.sleep(7)
    etcd:resume(silent)
    cluster.await_health(etcd)
    local slow, _, failed = end_cyclers(cyclers)
    local list = stalls({ from }, slow, 6)
    say("The member in use, %s, is stopped (SIGSTOP) for 7 s: %d calls failed", which, failed)
    say("  until locks went on: p50 %.2f s, max %.2f s (limit 2.5 s)", percentile(list, 50),
      list[#list])
    end_holders(holders, { from })
  end
end

local function swallowing_members(etcd)
  for _, which in ipairs { "a follower", "the leader" } do
    local leader = cluster.leader_of(etcd)
    local silent = which == "the leader" and leader or leader % 3 + 1
    local way = Swallow.start(etcd:endpoint(silent))
    local endpoints = cluster.endpoints_from(etcd, silent):gsub("^[^,]+", way:endpoint())
    local label = which == "the leader" and "swallowleader" or "swallow"
    local holders, cyclers = start_holders(endpoints, label), start_cyclers(endpoints, label)
    wait.sleep(1)
    local from = wait.now()
    way:swallow()
    wait.sleep(7)
    local slow, _, failed = end_cyclers(cyclers)
    local list = stalls({ from }, slow, 6)
    say("The way to the member in use, %s, swallows all for 7 s: %d calls failed", which, failed)
    say("  until locks went on: p50 %.2f s, max %.2f s (limit 2.5 s)", percentile(list, 50),
      list[#list])
    end_holders(holders, { from })
    way:stop()
  end
end

local function all_down(etcd)
  local endpoints = etcd:endpoints()
  local cyclers = start_cyclers(endpoints, "down")
  wait.sleep(0.5)
  for i = 1, 3 do etcd:kill(i) end
  wait.sleep(3)
  for i = 1, 3 do etcd:restart(i, { wait = false }) end
  cluster.await_health(etcd)
  local back = wait.now()
  wait.sleep(3)
  local slow, _, failed = end_cyclers(cyclers)
  local list = {}
  for _, one in ipairs(slow) do
    if one.took > 2 then list[#list + 1] = one.from + one.took - back end
  end
  table.sort(list)
  say("All members are killed and started 3 s later: %d calls failed", failed)
  say("  locks work, after all members are healthy: p50 %.2f s, max %.2f s (limit 1 s)",
    percentile(list, 50), list[#list])
end

-- ---- all of them ----------------------------------------------------------------

local PARTS = {
  kill = leader_kills, roll = rolling_restarts, silent = silent_members,
  swallow = swallowing_members, down = all_down,
}
program(function()
  -- etcd's default heartbeat interval and election timeout, as in production: those of the specs
  -- are shorter.
  local etcd = Etcd.start {
    members = 3, args = { "--heartbeat-interval", "100", "--election-timeout", "1000" },
  }
  say("Three members of etcd on this machine; %s", jit and jit.version or _VERSION)
  for _, name in ipairs(arg[1] and arg or { "kill", "roll", "silent", "swallow", "down" }) do
    PARTS[name](etcd)
  end
end)
