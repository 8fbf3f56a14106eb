-- Causes storms: faults of the network and of members, and clients that close. Between two storms
-- there is a calm period, in which only the administrator and changes of latency disturb the
-- clients.

local clients = require "spec.stress.clients"
local faults = require "spec.stress.faults"
local history = require "spec.stress.history"
local holds = require "spec.stress.holds"
local loop = require "spec.stress.loop"
local plan = require "spec.stress.plan"
local snapshots = require "spec.stress.snapshots"
local uv = require "luv"

local M = {}

-- Seconds. A calm period is long enough for the bounds of plan.lua.
local STORM, CALM = 15, plan.SETTLE + plan.LEFT_MAX + 8

local etcd, random, is_ending
local is_down = false -- true while a member is stopped or killed: only one at a time

local function stop_member(i)
  local member, seconds = etcd.members[i], random:real(0.2, plan.TTL)
  local may_lead = snapshots.leader == nil or snapshots.leader == i
  is_down = true
  history.count "stops"
  faults.begin("member %d is stopped for %.1f s%s", i, seconds, may_lead and ", it leads" or "")
  member.paused = true
  assert(uv.kill(member.process.pid, "sigstop"))
  loop.after(seconds, function()
    assert(uv.kill(member.process.pid, "sigcont"))
    member.paused, is_down = false, false
    faults.woken(may_lead)
    faults.finish("member %d goes on", i)
  end)
end

local function kill_member(i)
  local seconds = random:real(0.1, 3)
  is_down = true
  history.count "kills"
  faults.begin("member %d is killed for %.1f s", i, seconds)
  etcd:kill(i)
  loop.after(seconds, function()
    etcd:restart(i, { wait = false })
    is_down = false
    faults.finish("member %d starts", i)
  end)
end

-- Isolates a client, if possible a holder, in half of the cases until its lease has expired.
local function isolate_holder()
  local all = holds.all()
  local place = all[1] and random:pick(all).client.place or random:whole(1, plan.CLIENTS)
  local seconds = random:chance(0.5) and random:real(0.5, plan.TTL)
    or random:real(plan.TTL + 1, 2 * plan.TTL)
  history.count "isolations"
  clients.isolate(place, seconds)
end

local function strike()
  local kind = random:weighted {
    { is_down and 0 or 25, stop_member }, { is_down and 0 or 15, kill_member },
    { 20, clients.cut }, { 30, clients.isolate }, { 15, clients.renew },
  }
  if kind == stop_member or kind == kill_member then
    kind(random:whole(1, #etcd.members))
  elseif kind == clients.isolate then
    isolate_holder()
  else
    history.count(kind == clients.cut and "cuts" or "closes")
    kind(random:whole(1, plan.CLIENTS))
  end
end

-- Causes faults until |seconds| have passed. Then starts the next storm after a calm period.
local function storm(seconds)
  if is_ending() then return end
  if seconds <= 0 then
    loop.after(CALM, function() storm(STORM) end)
    return
  end
  strike()
  local interval = random:real(0.5, 3)
  loop.after(interval, function() storm(seconds - interval) end)
end

local function change_latency()
  local low = random:real(0, 0.03)
  clients.set_latency(random:whole(1, plan.CLIENTS), low, random:real(low, 0.05))
  if not is_ending() then loop.after(random:real(0.5, 2), change_latency) end
end

-- Makes Lua collect the handles that owners have dropped.
local function collect()
  collectgarbage()
  if not is_ending() then loop.after(random:real(0.5, 2), collect) end
end

-- Disturbs the clients and |cluster| until has_ended() is true.
function M.start(cluster, source, has_ended)
  etcd, random, is_ending = cluster, source, has_ended
  loop.after(3, function() storm(STORM) end)
  loop.after(1, change_latency)
  loop.after(1, collect)
end

return M
