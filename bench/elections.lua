-- Measures what an election costs the clients: the leader of three members stands still, and the
-- others elect a new one.
--
--   make elections [ELECTION="1 2"] [ROUNDS=20]
--
-- ELECTION are election timeouts in seconds. In each round, every client holds a lock with a TTL of
-- 5 s and asks for another one right after the leader has stopped. A line per round: seconds until
-- the new leader answers a read; holds that are lost until one TTL after that; seconds from the
-- answer until 95 % of the calls, and all of them, have returned. The last line of an ELECTION is
-- over the rounds in which the new leader answers within SOON seconds.

local Etcd = require "spec.support.servers.etcd"
local cluster = require "spec.support.servers.cluster"
local etcdlock = require "etcdlock"
local measure = require "bench.measure"
local proc = require "spec.support.programs.proc"
local program = require "bench.program"
local wait = require "spec.support.harness.wait"

local CLIENTS, TTL, SOON = 16, 5, 3

-- Prints a line as soon as one of the members "$@" answers a linearizable read.
local PROBE = [[
while :; do
  for endpoint; do
    curl -sfm 0.1 -d '{"key":"eA=="}' "$endpoint/v3/kv/range" >/dev/null && echo answered && exit
  done
done]]

local function start_probe(etcd)
  local argv = { "sh", "-c", PROBE, "sh" }
  for i, member in ipairs(etcd.members) do
    argv[#argv + 1] = not member.paused and etcd:endpoint(i) or nil
  end
  return proc.talk(argv)
end

local function start_clients(etcd)
  local clients = {}
  for i = 1, CLIENTS do
    local client = assert(etcdlock.connect {
      endpoints = cluster.endpoints_from(etcd, i % 3 + 1), ttl = TTL, log = function() end,
    })
    clients[i] = { client = client, held = assert(client:lock("held" .. i, { timeout = 10 })) }
  end
  return clients
end

-- Notes which calls of |clients| have returned, and which holds are lost.
local function look(clients)
  for _, it in ipairs(clients) do
    if not it.returned_at then
      local lock, message = it.pending:step()
      if lock == nil then error(message) end
      it.returned_at = lock and wait.now()
    end
    it.is_lost = it.is_lost or not it.held:held()
  end
end

-- Returns how long the election took, the number of lost holds, and for each call how long after
-- the election it returned.
local function run_round(election)
  local etcd = Etcd.start {
    tls = false, members = 3,
    args = {
      ("--heartbeat-interval=%d"):format(100 * election),
      ("--election-timeout=%d"):format(1000 * election),
    },
  }
  local clients = start_clients(etcd)
  wait.sleep(2 + 2 * math.random()) -- so that the leader stops at any point between two keepalives
  etcd:pause((cluster.leader_of(etcd)))
  local stopped_at, answered_at = wait.now(), nil
  local probe = start_probe(etcd)
  for i, it in ipairs(clients) do
    it.pending = it.client:lock_async("free" .. i, { timeout = 30 })
  end
  repeat
    wait.sleep(0.005)
    look(clients)
    answered_at = answered_at or probe.lines[1] and wait.now()
  until answered_at and wait.now() > answered_at + TTL
  local lost, late = 0, {}
  for _, it in ipairs(clients) do
    assert(it.returned_at, "a call has not returned within a TTL of the new leader")
    late[#late + 1] = math.max(0, it.returned_at - answered_at)
    lost = lost + (it.is_lost and 1 or 0)
    it.client:close()
  end
  proc.destroy_children()
  etcd:stop()
  return answered_at - stopped_at, lost, late
end

local function report(title, lost, holds, late)
  print(("%s  %3d of %d holds lost, calls return after %.2f s (95 %%), %.2f s (all)"):format(
    title, lost, holds, measure.spread(late, 95).median, measure.spread(late).high))
end

local function run(election, rounds)
  local all_lost, all_late, soon = 0, {}, 0
  for round = 1, rounds do
    local took, lost, late = run_round(election)
    local title = ("%g s, round %2d: new leader after %.2f s"):format(election, round, took)
    report(title, lost, CLIENTS, late)
    if took <= SOON then
      soon, all_lost = soon + 1, all_lost + lost
      for _, seconds in ipairs(late) do all_late[#all_late + 1] = seconds end
    end
  end
  if soon > 0 then
    report(("%g s, %d of %d rounds within %g s"):format(election, soon, rounds, SOON), all_lost,
      soon * CLIENTS, all_late)
  end
end

program.run(function()
  for election in program.words("ELECTION", "1 2") do
    run(tonumber(election), tonumber(program.words("ROUNDS", "20")()))
  end
end)
