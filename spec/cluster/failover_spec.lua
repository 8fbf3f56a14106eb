-- Several members: that one of them dies, hangs or is restarted is noticed by
-- nobody; that all of them are gone is told in time.

local Etcd = require "spec.support.servers.etcd"
local cluster = require "spec.support.servers.cluster"
local proc = require "spec.support.programs.proc"
local remote = require "spec.support.programs.remote"
local suite = require "spec.support.harness.suite"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()
local ask, assert_within, SLACK = remote.ask, remote.assert_within, wait.SLACK
-- Of 5 s would do for the end of a leader, but not on a busy machine.
local TTL = 8

local etcd

local function options(endpoints, ttl)
  return { endpoints = endpoints, prefix = prefix, ttl = ttl or TTL }
end

-- Clients whose first member is member |i|.
local function start_at(i, count)
  return remote.start(options(cluster.endpoints_from(etcd, i)), count)
end

local function cycle_once(child)
  assert.same({ "true" }, ask(child, "return assert(client:lock 'x'):unlock()"))
end

-- A client that holds |name|, one that waits for it; its token.
local function hold_and_wait(i, name)
  local holder, waiter = start_at(i, 2)
  local token = remote.take(holder, name)
  remote.send_take(waiter, name, 60)
  etcd:await_keys(prefix .. name .. "/", 2)
  return holder, waiter, token
end

-- |holder| still has its lock, renewed |since|, and hands it over to |waiter|.
local function assert_undisturbed(holder, waiter, token, since)
  remote.assert_renewed(holder, since, TTL)
  remote.assert_held(holder, token)
  remote.assert_waits(waiter)
  remote.release(holder)
  assert.is_true(remote.taken(waiter, 2) > token)
end

setup(function() etcd = Etcd.start { members = 3 } end)
before_each(function() cluster.heal(etcd) end)

teardown(function()
  proc.destroy_children()
  etcd:stop()
end)

describe("a client of three members", function()
  it("takes their addresses as a list or as one text", function()
    local list = {}
    for i = 1, 3 do list[i] = etcd:endpoint(i) end
    for _, endpoints in ipairs { list, table.concat(list, ",") } do
      local child = remote.start(options(endpoints))
      remote.assert_held(child, remote.take(child, "forms"))
      remote.release(child)
    end
  end)

  it("finds those that run, wherever the one that does not is in the list", function()
    local _, dead = cluster.leader_of(etcd)
    etcd:kill(dead)
    for i = 1, 3 do
      local child = start_at(i)
      local from = wait.now()
      local token = remote.take(child, "dead/" .. i)
      assert_within(wait.now() - from, 0, 1 + SLACK, "the first lock with a dead member")
      remote.assert_held(child, token)
      remote.release(child)
    end
  end)

  it("loses nothing when the leader is killed, and waits no longer than its election", function()
    local leader = cluster.leader_of(etcd)
    local holder, waiter, token = hold_and_wait(leader, "leader")
    local join = cluster.start_cycles(etcd, options(cluster.endpoints_from(etcd, leader)),
      "kill", 4)
    etcd:kill(leader)
    local killed = wait.now()
    cluster.leader_of(etcd)
    join()
    assert_undisturbed(holder, waiter, token, killed)
  end)

  it("loses nothing when all members are restarted, one after the other", function()
    local leader = cluster.leader_of(etcd)
    local holder, waiter, token = hold_and_wait(leader, "rolling")
    local join = cluster.start_cycles(etcd, options(cluster.endpoints_from(etcd, leader)),
      "rolling", 4)
    for i = 1, 3 do
      assert(uv.kill(etcd:pid(i), "sigterm"))
      proc.wait(etcd.members[i].process, 20)
      etcd:restart(i, { wait = false })
      cluster.await_health(etcd)
    end
    local restarted = wait.now()
    join()
    assert_undisturbed(holder, waiter, token, restarted)
  end)
end)

describe("a member that stops answering without closing", function()
  -- One holds, one waits and one asks, all at member |silent|.
  local function assert_left(silent, name, stall)
    local holder, waiter, token = hold_and_wait(silent, name)
    local other = start_at(silent)
    cycle_once(other)
    etcd:pause(silent)
    local from = wait.now()
    remote.take(other, name .. "/elsewhere")
    assert_within(wait.now() - from, 0, stall, "the move")
    assert_undisturbed(holder, waiter, token, from)
  end

  it("is left: the lock goes on elsewhere, the hold and the queue too", function()
    local _, follower = cluster.leader_of(etcd)
    assert_left(follower, "silent", 2.5 + SLACK)
  end)

  it("is left even if it was the leader", function()
    assert_left(cluster.leader_of(etcd), "silent_leader", cluster.STALL_MAX)
  end)
end)

describe("a member that is cut off from the others", function()
  -- Where the client would go next; what came there.
  local function listener()
    local socket, seen = uv.new_tcp(), { count = 0 }
    assert(socket:bind("127.0.0.1", 0))
    assert(socket:listen(16, function()
      local client = uv.new_tcp()
      socket:accept(client)
      client:close()
      seen.count = seen.count + 1
    end))
    seen.endpoint = "http://127.0.0.1:" .. ("%d"):format(socket:getsockname().port)
    function seen.close() socket:close() end
    return seen
  end

  it("is left by one who only holds, and by one who asks", function()
    local _, alone = cluster.leader_of(etcd)
    local next_ones = { listener(), listener() }
    finally(function()
      proc.destroy_children()
      for _, one in ipairs(next_ones) do one.close() end
    end)
    local function start(i)
      return remote.start(options(etcd:endpoint(alone) .. "," .. next_ones[i].endpoint, 12))
    end
    local holder, other = start(1), start(2)
    local token = remote.take(holder, "alone")
    cycle_once(other)
    for i = 1, 3 do
      if i ~= alone then etcd:pause(i) end
    end
    remote.send(other, "return client:lock('x', { timeout = 3 })")
    wait.eventually(function() return next_ones[2].count > 0 end, 2.5 + SLACK,
      "the one who asks has moved")
    -- A third of its TTL until it asks, and what an attempt may take.
    wait.eventually(function() return next_ones[1].count > 0 end, 12 / 3 + 2 + SLACK,
      "the holder has moved")
    local results, took = remote.answer_of(other)
    assert.same({ "nil", "unavailable" }, { results[1], results[3] })
    assert_within(took, 3, 3 + SLACK, "the wait")
    for i = 1, 3 do
      if i ~= alone then etcd:resume(i) end
    end
    cluster.await_health(etcd)
    cycle_once(other)
    remote.assert_held(holder, token)
  end)

  -- In its first moments, when it leads as far as it knows.
  it("is not believed in what it knows alone", function()
    local leader = cluster.leader_of(etcd)
    local child = remote.start(options(etcd:endpoint(leader)))
    cycle_once(child)
    for i = 1, 3 do
      if i ~= leader then etcd:pause(i) end
    end
    local results = ask(child, "return client:ping()", 10)
    assert.same({ "nil", "unavailable" }, { results[1], results[3] })
  end)

  it("answers at once that it is, to a call that nobody else can serve", function()
    local _, alone = cluster.leader_of(etcd)
    local child = remote.start(options(etcd:endpoint(alone)))
    cycle_once(child)
    for i = 1, 3 do
      if i ~= alone then etcd:kill(i) end
    end
    local count = 0
    wait.eventually(function()
      count = count + 1
      local program = "return client:lock('y/%d', { timeout = 0.3 })"
      local results = ask(child, program:format(count))
      assert.same({ "nil", "unavailable" }, { results[1], results[3] })
      return results[2]:find("no leader", 1, true), results[2]
    end, 5, "it says so")
  end)
end)

describe("a cluster of which all members are down", function()
  local IDLE = [[
    local usage = require('luv').getrusage
    local function seconds(time) return time.sec + time.usec / 1e6 end
    local function cpu(use) return seconds(use.utime) + seconds(use.stime) end
    local from = usage()
    client:lock('d', { timeout = 3 })
    local to = usage()
    return cpu(to) - cpu(from), to.nvcsw - from.nvcsw
  ]]

  it("is told in time, with the cause, is not hammered, and is back at once", function()
    local caller, idler, patient, fresh = remote.start(options(etcd:endpoints()), 4)
    for _, child in ipairs { caller, idler, patient } do cycle_once(child) end
    for i = 1, 3 do etcd:kill(i) end
    remote.send_take(patient, "down")
    remote.send(idler, IDLE)
    for _, child in ipairs { caller, fresh } do
      remote.send(child, "return client:lock('down', { timeout = 2 })")
    end
    for _, child in ipairs { caller, fresh } do
      local results, took = remote.answer_of(child)
      assert.same({ "nil", "unavailable" }, { results[1], results[3] })
      assert.matches("refused", results[2])
      assert.matches("127%.0%.0%.1:%d+", results[2])
      assert_within(took, 2, 2 + SLACK, "the wait of 2 s")
    end
    local results, took = remote.answer_of(idler)
    assert_within(took, 3, 3 + SLACK, "the wait of 3 s")
    local share, wakes = tonumber(results[1]) / took, tonumber(results[2]) / took
    -- It is about 70; each try is a few.
    assert.is_true(wakes < 100, ("woke up %.0f times a second"):format(wakes))
    -- It is about 1 %; more on a busy machine and under sanitizers.
    assert.is_true(share < 0.05, ("%.1f %% of a core"):format(share * 100))

    for i = 1, 3 do etcd:restart(i, { wait = false }) end
    cluster.await_health(etcd)
    local back = wait.now()
    remote.send_take(caller, "again")
    remote.send_take(fresh, "fresh")
    for name, child in pairs { patient = patient, caller = caller, fresh = fresh } do
      remote.taken(child)
      assert_within(wait.now() - back, 0, 1 + SLACK, "a lock after all members came: " .. name)
    end
  end)
end)
