-- What is promised of the kinds of lock beside the plain one, with processes that fight for
-- them, against an etcd of its own: `make family`. With the argument "short" a few seconds
-- of each, of which only what depends on nobody's speed is judged.

local Etcd = require "spec.support.servers.etcd"
local etcdlock = require "etcdlock"
local measure = require "bench.measure"
local proc = require "spec.support.programs.proc"
local program = require "bench.program"
local timeline = require "bench.family.timeline"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local SHORT = arg[1] == "short"
local broken = 0

local function say(...)
  print(string.format(...))
  io.stdout:flush()
end

-- One line of what was promised, and whether it is so.
local function promise(is_kept, ...)
  broken = broken + (is_kept and 0 or 1)
  say("  %s %s", is_kept and "ok  " or "FAIL", string.format(...))
end

-- The same of what a busy machine may break.
local function promise_pace(is_kept, ...)
  if SHORT then
    say("       %s", string.format(...))
  else
    promise(is_kept, ...)
  end
end

-- ---- processes ----

local PATIENCE = 30 -- seconds: until one of them is ready, or has ended

local function start(etcd, kind, hold, seed)
  local member = proc.talk {
    uv.exepath(), "bench/family/member.lua", etcd:endpoint(), kind, tostring(hold), tostring(seed),
  }
  member.kind, member.hold = kind, hold
  return member
end

-- Starts |count| of them for each of the |roles|: { kind, count, hold }.
local function start_all(etcd, roles)
  local members = {}
  for _, role in ipairs(roles) do
    for _ = 1, role[2] do
      members[#members + 1] = start(etcd, role[1], role[3], #members + 1)
    end
  end
  for _, member in ipairs(members) do member:expect("^ready", PATIENCE) end
  return members
end

local function begin(members)
  for _, member in ipairs(members) do member:send "go" end
end

-- Waits for the end of |member|, and adds its holds to |all|. Returns the first message of
-- a call that has failed, if any has.
local function add_holds(all, member)
  wait.eventually(function() return member.out.ended end, PATIENCE, "the end of a process")
  local holds, failure = timeline.read(member.lines)
  member.count = #holds
  for _, hold in ipairs(holds) do
    hold.member = member
    all[#all + 1] = hold
  end
  member:destroy()
  return failure
end

-- Ends them, and returns all their holds.
local function finish(members)
  local all = {}
  for _, member in ipairs(members) do member:finish() end
  for _, member in ipairs(members) do
    local failure = add_holds(all, member)
    if failure or member.lines[#member.lines] ~= "end" then
      promise(false, "a process of %s: %s%s", member.kind, failure or "died", member.err.text)
    end
  end
  return all
end

local function any() return true end

-- ---- several names ----

local function several(etcd)
  local seconds = SHORT and 3 or 60
  local members = start_all(etcd, { { "multi", 8, 0 } })
  begin(members)
  wait.sleep(seconds)
  local holds, overlaps = finish(members), 0
  for _, list in pairs(timeline.by_name(holds)) do
    overlaps = overlaps + timeline.overlaps(list, any)
  end
  say("Several names: 8 processes, 2 to 5 of 25 names in any order, %d s", seconds)
  promise(overlaps == 0, "%d holds, %d of them of a name that somebody else had", #holds, overlaps)
  promise_pace(#holds / seconds > 200, "%.0f holds a second (limit 200)", #holds / seconds)
  local left = #etcd:keys "name/"
  promise(left == 0, "%d keys are left", left)
end

local function cost_of_several(etcd)
  local client = assert(etcdlock.connect { endpoints = etcd:endpoint() })
  local five, pairs_of_a_round, ratios = { "a", "b", "c", "d", "e" }, SHORT and 50 or 500, {}
  local function time(take)
    local from = wait.now()
    assert(assert(take()):unlock())
    return wait.now() - from
  end
  local function one() return client:lock "a" end
  local function all() return client:multi_lock(five) end
  time(one)
  for i = 1, 7 do
    local alone, together = 0, 0
    for _ = 1, pairs_of_a_round do
      alone, together = alone + time(one), together + time(all)
    end
    ratios[i] = together / alone
  end
  local before = client:stats().rpcs
  assert(assert(client:multi_lock(five)):unlock())
  local spread, requests = measure.spread(ratios), client:stats().rpcs - before
  client:close()
  say("Five names that nobody else wants, beside one")
  promise(requests == 2, "%.0f requests (limit 2)", requests)
  promise_pace(spread.median <= 1.3, "%.2f times as long (%.2f to %.2f; limit 1.3)", spread.median,
    spread.low, spread.high)
end

-- ---- readers and writers ----

local function is_excluded(new, other)
  return new.member.kind == "write" or other.member.kind == "write"
end

-- Of those who do the same, the one who came least often beside their mean.
local function least_share(members, kind)
  local least, sum, n = math.huge, 0, 0
  for _, member in ipairs(members) do
    if member.kind == kind then
      least, sum, n = math.min(least, member.count), sum + member.count, n + 1
    end
  end
  return least / (sum / n)
end

local function readers_and_writers(etcd)
  local seconds, hold = SHORT and 3 or 30, 0.02
  local members = start_all(etcd, { { "read", 6, hold }, { "write", 2, hold } })
  begin(members)
  wait.sleep(seconds)
  local holds = finish(members)
  local reading, lengths, longest = {}, {}, 0
  for _, it in ipairs(holds) do
    if it.member.kind == "read" then
      reading[#reading + 1], lengths[#lengths + 1] = it, it.to - it.from
    else
      longest = math.max(longest, it.waited)
    end
  end
  local limit = 2 * measure.spread(lengths).median * #members
  say("6 readers and 2 writers of one name, who hold it for %.0f ms, %d s", hold * 1000, seconds)
  local overlaps, most = timeline.overlaps(holds, is_excluded), timeline.most(reading)
  promise(overlaps == 0, "%d holds, %d of them beside a writer", #holds, overlaps)
  promise_pace(most > 1, "%d readers at once", most)
  promise_pace(longest <= limit, "a writer waits for %.0f ms at most (limit %.0f ms)",
    longest * 1000, limit * 1000)
  local least = math.min(least_share(members, "read"), least_share(members, "write"))
  promise_pace(least > 0.8, "least served of its kind: %.0f %% of the mean (limit 80 %%)",
    least * 100)
end

-- ---- a semaphore whose holders are killed ----

local TTL = 2 -- member.lua's

-- Kills one of them, and has another take its place.
local function replace(etcd, members, gone, seed)
  local at = math.random(#members)
  local member = members[at]
  member:kill "sigkill"
  member.killed = wait.now()
  gone[#gone + 1] = member
  members[at] = start(etcd, member.kind, member.hold, seed)
  members[at]:send "go"
end

-- The holds of who was killed: the last one ends at that moment at the latest. Returns
-- when each was, by pid, and how many had a permit then.
local function add_gone(holds, gone)
  local n, killed = 0, {}
  for _, member in ipairs(gone) do
    add_holds(holds, member)
    killed[member.pid] = member.killed
  end
  for _, hold in ipairs(holds) do
    n = n + (hold.to and 0 or 1)
    hold.to = hold.to or hold.member.killed
  end
  return killed, n
end

-- Does somebody have each of the permits that are given away at this moment? One who has
-- died has it until his lease ends.
local function are_in_use(sample, by_token, killed)
  for _, place in ipairs(sample.places) do
    local hold, died = by_token[place.token], killed[place.pid]
    local has = hold and hold.from <= sample.at and sample.at <= hold.to
    if not has and not (died and died <= sample.at) then return false end
  end
  return #sample.places == 3
end

local function look(client)
  local sample = { at = wait.now(), places = {} }
  for _, place in ipairs(assert(client:queue "pool")) do
    if place.held then sample.places[#sample.places + 1] = place end
  end
  return sample
end

local function semaphore(etcd)
  local seconds, hold = SHORT and 4 or 60, 0.5
  local client = assert(etcdlock.connect { endpoints = etcd:endpoint() })
  local members, gone, samples = start_all(etcd, { { "semaphore", 12, hold } }), {}, {}
  begin(members)
  wait.sleep(1)
  local from, next_kill = wait.now(), wait.now()
  while wait.now() < from + seconds do
    if wait.now() >= next_kill then
      replace(etcd, members, gone, 100 + #gone)
      next_kill = next_kill + 1
    end
    samples[#samples + 1] = look(client)
    wait.sleep(0.02)
  end
  local holds = finish(members)
  local killed, died = add_gone(holds, gone)
  local by_token, used = {}, 0
  for _, it in ipairs(holds) do by_token[it.token] = it end
  for _, sample in ipairs(samples) do
    used = used + (are_in_use(sample, by_token, killed) and 1 or 0)
  end
  wait.eventually(function() return #etcd:keys "pool/" == 0 end, TTL + PATIENCE, "no key is left")
  client:close()
  say("A semaphore of 3, 12 processes, of which %d were killed, %d of them holders, %d s", #gone,
    died, seconds)
  local most = timeline.most(holds)
  promise(most <= 3, "%d holds, at most %d at once", #holds, most)
  promise_pace(used / #samples > 0.95, "all 3 in use for %.1f %% of the time (limit 95 %%)",
    used / #samples * 100)
end

-- ---- all of them ----

program(function()
  -- The specs run without fsync; figures must not.
  local etcd = Etcd.start { args = { "--unsafe-no-fsync=false" } }
  cost_of_several(etcd)
  several(etcd)
  readers_and_writers(etcd)
  semaphore(etcd)
  return broken == 0
end)
