-- Tests the promises of multi-locks, read-write locks and semaphores with processes that contend
-- for them, against a private etcd: `make family`. With the argument "short", each test takes a few
-- seconds, and only promises that do not depend on the speed of the machine are judged.

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

-- Prints a result and whether the promise is kept. If it is not kept, the program exits with 1.
local function promise(is_kept, ...)
  broken = broken + (is_kept and 0 or 1)
  say("  %s %s", is_kept and "ok  " or "FAIL", string.format(...))
end

-- Like promise, for a result that depends on the speed of the machine. In a short run it is only
-- printed.
local function promise_pace(is_kept, ...)
  if SHORT then
    say("       %s", string.format(...))
  else
    promise(is_kept, ...)
  end
end

-- ---- processes ----

local PATIENCE = 30 -- seconds to wait until a process is ready, or has ended

-- Starts one process of member.lua, which contends for locks of |kind|, each held for |hold|
-- seconds.
local function start(etcd, kind, hold, seed)
  local member = proc.talk {
    uv.exepath(), "bench/family/member.lua", etcd:endpoint(), kind, tostring(hold), tostring(seed),
  }
  member.kind, member.hold = kind, hold
  return member
end

-- Starts the processes of all |roles|: a list of { kind, count, hold }. Returns them when all are
-- ready.
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

-- Waits for the end of |member|, and adds its holds to the list |all|. Returns the first line of a
-- failed call; nil if no call failed.
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

-- Ends |members|, and returns the list of all their holds. If a call of a member failed, or a
-- member died, prints that as a promise that is not kept.
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

-- For timeline.overlaps: any two holds exclude each other.
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

-- Compares five names in one call with one name, without contention: time, and number of requests.
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

-- For timeline.overlaps: two holds exclude each other if one of them is of a writer.
local function is_excluded(new, other)
  return new.member.kind == "write" or other.member.kind == "write"
end

-- Of the |members| of |kind|: returns the number of holds of the member with the fewest, divided by
-- their mean.
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

local TTL = 2 -- seconds; the TTL of member.lua

-- Kills one of |members| at random, adds it to |gone|, and starts another member in its place.
local function replace(etcd, members, gone, seed)
  local at = math.random(#members)
  local member = members[at]
  member:kill "sigkill"
  member.killed = wait.now()
  gone[#gone + 1] = member
  members[at] = start(etcd, member.kind, member.hold, seed)
  members[at]:send "go"
end

-- Adds the holds of the killed members |gone| to |holds|. A hold that was not released ends when
-- its member is killed. Returns a table from process id to the time of the kill, and the number of
-- killed members that held a permit.
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

-- Are all three permits in use at the time of |sample|? A permit is in use if its holder was within
-- a hold then, or had been killed before: the permit of a killed holder stays taken until its lease
-- expires.
local function are_in_use(sample, by_token, killed)
  for _, place in ipairs(sample.places) do
    local hold, died = by_token[place.token], killed[place.pid]
    local has = hold and hold.from <= sample.at and sample.at <= hold.to
    if not has and not (died and died <= sample.at) then return false end
  end
  return #sample.places == 3
end

-- Returns { at, places }: the time, and the holders in the queue of the semaphore.
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
  -- The specs run etcd without fsync. These figures need fsync, as in production.
  local etcd = Etcd.start { args = { "--unsafe-no-fsync=false" } }
  cost_of_several(etcd)
  several(etcd)
  readers_and_writers(etcd)
  semaphore(etcd)
  return broken == 0
end)
