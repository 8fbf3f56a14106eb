-- Tests a cluster of three members: holds and waits continue if a member dies, hangs or
-- restarts, and calls fail in time with the cause if all members are down.
-- Needs: three members.

local ask, assert_within, SLACK = remote.ask, remote.assert_within, wait.SLACK
-- Seconds. A hold with a TTL of 5 s survives the loss of the leader on an idle machine, but not on
-- a busy one.
local TTL = 8

local etcd

local function options(endpoints, ttl)
  return { endpoints = endpoints, prefix = prefix, ttl = ttl or TTL }
end

-- Returns the options of a client that uses member |i| first.
local function options_at(i, ttl) return options(cluster.endpoints_from(etcd, i), ttl) end

local function cycle_once(child)
  assert.same({ "true" }, ask(child, "return assert(client:lock 'x'):unlock()"))
end

setup(function() etcd = Etcd.start { members = 3 } end)
before_each(function() cluster.heal(etcd) end)

describe("a client of three members", function()
  it("gets its first lock within 1 s if a member is down, at any position of the list", function()
    local _, dead = cluster.leader_of(etcd)
    etcd:kill(dead)
    for i = 1, 3 do
      local child = remote.start(options_at(i))
      local from = wait.now()
      local token = remote.take(child, "dead/" .. i)
      assert_within(wait.now() - from, 0, 1 + SLACK, "the first lock with a dead member")
      remote.assert_held(child, token)
      remote.release(child)
    end
  end)

  it("keeps its hold and its wait while all members restart one after the other", function()
    local leader = cluster.leader_of(etcd)
    local assert_undisturbed = cluster.hold_and_wait(etcd, options_at(leader), "rolling")
    local join = cluster.start_cycles(etcd, options_at(leader), "rolling", 4)
    for i = 1, 3 do
      assert(uv.kill(etcd:pid(i), "sigterm"))
      proc.wait(etcd.members[i].process, 20)
      etcd:restart(i, { wait = false })
      cluster.await_health(etcd)
    end
    local restarted = wait.now()
    join()
    assert_undisturbed(restarted)
  end)
end)

describe("a client of a paused member", function()
  it("moves to another one and keeps its hold and its wait if the member was the leader", function()
    local silent = cluster.leader_of(etcd)
    local assert_undisturbed = cluster.hold_and_wait(etcd, options_at(silent), "silent")
    local other = remote.start(options_at(silent))
    cycle_once(other)
    etcd:pause(silent)
    local from = wait.now()
    remote.take(other, "elsewhere")
    assert_within(wait.now() - from, 0, cluster.STALL_MAX, "the move")
    assert_undisturbed(from)
  end)
end)

-- Regression 253. A keepalive that a member had passed on to a leader that was gone was not sent
-- again, and after a failover the lease was renewed only when it was due. So holds were lost
-- although the next leader answered in time.
describe("a client whose lease is renewed every 20 s", function()
  -- Starts a client of |member| that holds |name|. Calls change(), which makes the client see
  -- another leader or use another member, and waits until the client has renewed its lease.
  local function assert_renews(name, member, change)
    local child = remote.start(options_at(member, 60))
    remote.take(child, name) -- so that the lease is in use
    local function keepalives()
      return tonumber(ask(child, "return client:stats().keepalives")[1])
    end
    local before = keepalives()
    change()
    cycle_once(child)
    wait.eventually(function() return keepalives() > before end, 5, "a keepalive")
  end

  it("renews it when it sees another leader", function()
    local leader, follower = cluster.leader_of(etcd)
    assert_renews("new leader", follower, function()
      local ids = etcd:ctl("member", "list")
      local id = assert(ids:match("(%x+), started, m" .. follower .. ","))
      local _, code, err = etcd:ctl("move-leader", id, "--endpoints", etcd:endpoint(leader))
      assert.equal(0, code, err)
      assert.not_equal(leader, (cluster.leader_of(etcd)))
    end)
  end)

  it("renews it when it has left its member", function()
    local leader, follower = cluster.leader_of(etcd)
    assert.is_number(leader)
    assert_renews("left member", follower, function() etcd:kill(follower) end)
  end)
end)

-- Regression 255. The client left a member that had just learned of a new leader, and went on to
-- the former leader, which was silent.
it("a client stays with a member that tells of a new leader", function()
  local one, two = clients.scripted(etcd:endpoint(1)), clients.scripted(etcd:endpoint(2))
  local client = connect { endpoints = { one:endpoint(), two:endpoint() } }
  assert(client:lock "first")
  one:answer("Txn", "before", error_rows.STATUS.UNAVAILABLE, "etcdserver: leader changed", 1)
  assert(client:lock("second", { timeout = 5 }))
  assert.equal(1, client:stats().failed_attempts)
  assert.equal(0, two:calls "Txn")
end)

-- Regression 320. A client that waited for the answer of a leader that hangs, or of a member that
-- had passed the request on to it, waited for up to 1.2 s after the election of another leader.
it("clients go back to a member that they have left as soon as it has a leader", function()
  local own = Etcd.start {
    members = 3, args = { "--heartbeat-interval=150", "--election-timeout=1500" },
  }
  -- The next member that a client tries may have a leader already. Then the client does not go
  -- back.
  wait.eventually(function()
    local all, back = {}, 0
    local function log(event)
      if event.event == "failover" and event.message:find "leader" then back = back + 1 end
    end
    for i = 1, 6 do
      local endpoints = cluster.endpoints_from(own, i % 3 + 1)
      all[i] = { client = connect { endpoints = endpoints, ttl = 60, log = log } }
      assert(all[i].client:lock("first" .. i))
    end
    local leader = cluster.leader_of(own)
    own:pause(leader)
    for i, it in ipairs(all) do it.lock = it.client:lock_async("second" .. i, { timeout = 60 }) end
    for _, it in ipairs(all) do
      wait.eventually(function() return (it.lock:step()) end, 20, "the lock")
      it.client:close() -- delivers its events
    end
    own:resume(leader)
    return back > 0
  end, 30, "a client that goes back")
end)

describe("a client of a member without a quorum", function()
  -- Starts a listener, for use as the second endpoint of a client. Returns a table with its
  -- endpoint, the count of connections that it has accepted, and the function close().
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

  it("tries its next endpoint, with only a hold or with a pending call", function()
    local _, alone = cluster.leader_of(etcd)
    local next_ones = { listener(), listener() }
    finally(function()
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
    -- The holder sends its next request within TTL / 3, and leaves the member 2 s later at most.
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

  -- Right after the loss of its followers the member still considers itself the leader.
  it('gets "unavailable" from ping even if the member was the leader', function()
    local leader = cluster.leader_of(etcd)
    local child = remote.start(options(etcd:endpoint(leader)))
    cycle_once(child)
    for i = 1, 3 do
      if i ~= leader then etcd:pause(i) end
    end
    local results = ask(child, "return client:ping()", 10)
    assert.same({ "nil", "unavailable" }, { results[1], results[3] })
  end)
end)

describe("a client of a stopped cluster", function()
  -- Counts the wake-ups of Lua and of the I/O thread, because those of gRPC depend on its version.
  local IDLE = [[
    local uv = require('luv')
    local function seconds(time) return time.sec + time.usec / 1e6 end
    local function cpu()
      local use = uv.getrusage()
      return seconds(use.utime) + seconds(use.stime)
    end
    local function wakes()
      local sum, scan = 0, uv.fs_scandir('/proc/self/task')
      for id in function() return uv.fs_scandir_next(scan) end do
        local file = io.open('/proc/self/task/' .. id .. '/status')
        local status = file and file:read('*a') or ''
        if file then file:close() end
        if status:find('^Name:%s*lua') or status:find('^Name:%s*etcdlock%-io') then
          sum = sum + status:match('\nvoluntary_ctxt_switches:%s*(%d+)')
        end
      end
      return sum
    end
    local cpu_before, wakes_before = cpu(), wakes()
    client:lock('d', { timeout = 3 })
    return cpu() - cpu_before, wakes() - wakes_before
  ]]

  it("fails at its timeout, uses little CPU, and locks within 1 s of the restart", function()
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
    -- Usually they wake up about 35 times a second, a few times for each attempt.
    assert.is_true(wakes < 100, ("woke up %.0f times a second"):format(wakes))
    -- Usually about 1 % of a core, but up to 6 % under a sanitizer on a slow machine.
    local limit = matrix.is_sanitized and 0.1 or 0.05
    assert.is_true(share < limit, ("%.1f %% of a core"):format(share * 100))

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
