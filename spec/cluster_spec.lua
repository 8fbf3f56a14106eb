-- Several members: that one of them dies, hangs or is restarted is noticed by
-- nobody; and that another cluster, or a wiped one, is noticed by everybody.

local uv = require "luv"
local Etcd = require "spec.support.etcd"
local proc = require "spec.support.proc"
local suite = require "spec.support.suite"
local wait = require "spec.support.wait"

local prefix = suite.prefix()

-- How much later than promised a call may return.
local GRACE = 0.25
-- How long an acquire may stall when a member is lost. The aim is 2.5 s at the
-- 95th percentile, see failover.lua; this is for a busy machine.
local STALL_MAX = 4

-- Runs each line that it reads as a program, and says how long that took and
-- what it returned. Globals: `client`; `cycle`, which takes and releases a lock
-- for some seconds; `cpu`, the seconds of processor time so far.
local CHILD = [[
  local endpoints, prefix, ttl, is_list = ...
  local uv = require "luv"
  if is_list == "list" then
    local list = {}
    for one in endpoints:gmatch "[^,]+" do list[#list + 1] = one end
    endpoints = list
  end
  client = assert(require("etcdlock").connect {
    endpoints = endpoints, prefix = prefix, ttl = tonumber(ttl),
  })
  function cpu()
    local usage = uv.getrusage()
    return usage.utime.sec + usage.stime.sec + (usage.utime.usec + usage.stime.usec) / 1e6
  end
  function cycle(name, seconds)
    local deadline = uv.hrtime() + seconds * 1e9
    local count, longest, last = 0, 0, 0
    while uv.hrtime() < deadline do
      local from = uv.hrtime()
      local lock = assert(client:lock(name, { timeout = 20 }))
      longest = math.max(longest, uv.hrtime() - from)
      assert(lock:token() > last, "the token went back")
      count, last = count + 1, lock:token()
      assert(lock:check())
      local ok, message, code = lock:unlock()
      assert(ok or code == "unavailable", message)
      uv.sleep(10)
    end
    return count, longest / 1e9
  end
  local function answer(from, ok, ...)
    local words = ok and {} or { "raised" }
    for i = 1, select("#", ...) do
      words[#words + 1] = tostring((select(i, ...))):gsub("[\n|]", " ")
    end
    print(("answer %.6f %s"):format((uv.hrtime() - from) / 1e9, table.concat(words, "|")))
  end
  print "ready"
  for line in io.lines() do
    local program = assert((loadstring or load)(line))
    answer(uv.hrtime(), pcall(program))
  end
]]

local function start(endpoints, ttl, form)
  local child = proc.lua(CHILD, endpoints, prefix, ttl or 5, form or "text")
  child:expect("^ready", 20)
  return child
end

-- Waits for the answer to what was sent; returns its results and the seconds
-- that they took.
local function answer_of(child, seconds)
  local took, text = child:expect("^answer (%S+) (.*)", seconds or 10)
  local results = {}
  for word in (text .. "|"):gmatch "(.-)|" do results[#results + 1] = word end
  return results, tonumber(took)
end

local function ask(child, program, seconds)
  child:send(program)
  return answer_of(child, seconds)
end

local TAKE = "lock = assert(client:lock('%s', { timeout = 20 }))"
  .. " return ('%%.0f'):format(lock:token())"

local function take(child, name)
  local results = ask(child, TAKE:format(name), 25)
  return tonumber(results[1]) or error(table.concat(results, " "), 2)
end

-- |child| holds what it took, under |token|, and etcd says so too.
local function assert_held(child, token)
  assert.same({ "true", ("%.0f"):format(token) },
    ask(child, "return (lock:held()), ('%.0f'):format(lock:token())"))
  assert.same({ "true" }, ask(child, "local ok, _, why = lock:check() return ok or why"))
end

-- Starts |count| clients that take and release a lock each for |seconds|;
-- returns a function that waits for them, and fails if one had to wait too long.
local function start_cycles(endpoints, name, count, seconds)
  local children = {}
  for i = 1, count do children[i] = start(endpoints, 5) end
  for i, child in ipairs(children) do
    child:send(("return cycle('%s/%d', %g)"):format(name, i, seconds))
  end
  return function()
    for i, child in ipairs(children) do
      local results = answer_of(child, seconds + 30)
      assert.is_true(tonumber(results[1]) ~= nil, table.concat(results, " "))
      assert.is_true(tonumber(results[2]) <= STALL_MAX,
        ("client %d: a lock took %s s, of %s locks"):format(i, results[2], results[1]))
    end
  end
end

local function assert_within(took, low, high, what)
  local text = "%s took %.3f s, wanted %g to %g"
  assert.is_true(took >= low - 0.005 and took <= high, text:format(what or "it", took, low, high))
end

-- ---- the cluster --------------------------------------------------------------

local function is_down(member)
  return member.process.code or member.paused
end

-- The addresses of all members of |etcd|, that of member |i| first.
local function endpoints_from(etcd, i)
  local list = {}
  for k = 0, #etcd.members - 1 do
    list[k + 1] = etcd:endpoint((i - 1 + k) % #etcd.members + 1)
  end
  return table.concat(list, ",")
end

local function leader_of(etcd)
  local leader
  wait.eventually(function()
    local out, _, err = etcd:ctl("endpoint", "status")
    for endpoint in out:gmatch "(%S+), %x+, [^,]+, [^,]+, true," do
      for i, member in ipairs(etcd.members) do
        if member.endpoint == endpoint then leader = i end
      end
    end
    return leader, out .. err
  end, 20, "a leader")
  return leader
end

local function await_health(etcd)
  wait.eventually(function()
    local _, code, err = etcd:ctl("endpoint", "health")
    return code == 0, err
  end, 30, "all members are healthy")
end

local three

-- Three members, of which all run.
local function cluster()
  three = three or Etcd.start { members = 3 }
  finally(function() proc.destroy_children() end)
  local restarted
  for i, member in ipairs(three.members) do
    if is_down(member) then
      three:restart(i, { wait = false })
      restarted = true
    end
  end
  if restarted then await_health(three) end
  return three
end

-- An etcd that begins anew: on the same ports, without its data. Its cluster id
-- is the same, unless it |is_another|.
local function wipe(etcd, is_another)
  for i in ipairs(etcd.members) do etcd:kill(i) end
  for _, member in ipairs(etcd.members) do proc.run { "rm", "-rf", member.data } end
  if is_another then etcd.args = { "--initial-cluster-token", "another" } end
  for i in ipairs(etcd.members) do etcd:restart(i) end
end

local function single()
  local etcd = Etcd.start()
  finally(function()
    proc.destroy_children()
    etcd:stop()
  end)
  return etcd
end

teardown(function()
  if three then three:stop() end
end)

-- ---- what is seen -------------------------------------------------------------

describe("a client of three members", function()
  it("takes their addresses as a list or as one text", function()
    local etcd = cluster()
    for _, form in ipairs { "list", "text" } do
      local child = start(etcd:endpoints(), 5, form)
      local token = take(child, "forms")
      assert_held(child, token)
      assert.same({ "true" }, ask(child, "return lock:unlock()"))
    end
  end)

  it("finds those that run, wherever the one that does not is in the list", function()
    local etcd = cluster()
    local names = { endpoints_from(etcd, 1), endpoints_from(etcd, 2), endpoints_from(etcd, 3) }
    local leader = leader_of(etcd)
    local dead = leader % 3 + 1
    etcd:kill(dead)
    for i, endpoints in ipairs(names) do
      local child = start(endpoints, 5)
      local from = wait.now()
      local token = take(child, "dead/" .. i)
      assert_within(wait.now() - from, 0, 1, "the first lock with a dead member")
      assert_held(child, token)
      assert.same({ "true" }, ask(child, "return lock:unlock()"))
    end
  end)

  it("loses nothing when the leader is killed, and waits no longer than its election", function()
    local etcd = cluster()
    local leader = leader_of(etcd)
    local endpoints = endpoints_from(etcd, leader)
    local holder, waiter = start(endpoints, 5), start(endpoints, 5)
    local token = take(holder, "leader")
    waiter:send(TAKE:format "leader")
    local join = start_cycles(endpoints, "kill", 4, 6)
    wait.sleep(0.5)
    etcd:kill(leader)
    join()
    assert_held(holder, token)
    assert.is_nil(waiter.lines[1])
    assert.same({ "true" }, ask(holder, "return lock:unlock()"))
    assert.is_true(tonumber(answer_of(waiter, 2)[1]) > token)
  end)

  it("loses nothing when all members are restarted, one after the other", function()
    local etcd = cluster()
    local endpoints = endpoints_from(etcd, leader_of(etcd))
    local holder, waiter = start(endpoints, 5), start(endpoints, 5)
    local token = take(holder, "rolling")
    waiter:send(TAKE:format "rolling")
    local join = start_cycles(endpoints, "rolling", 3, 8)
    for i = 1, 3 do
      assert(uv.kill(etcd:pid(i), "sigterm"))
      proc.wait(etcd.members[i].process, 20)
      etcd:restart(i, { wait = false })
      await_health(etcd)
    end
    join()
    assert_held(holder, token)
    assert.is_nil(waiter.lines[1])
    assert.same({ "true" }, ask(holder, "return lock:unlock()"))
    assert.is_true(tonumber(answer_of(waiter, 2)[1]) > token)
  end)
end)

describe("a member that stops answering without closing", function()
  it("is left: the lock goes on elsewhere, the hold and the queue too", function()
    local etcd = cluster()
    local leader = leader_of(etcd)
    local silent = leader % 3 + 1
    local endpoints = endpoints_from(etcd, silent)
    local holder, waiter, other = start(endpoints, 5), start(endpoints, 5), start(endpoints, 5)
    local token = take(holder, "silent")
    waiter:send(TAKE:format "silent")
    assert.same({ "true" }, ask(other, "return assert(client:lock 'x'):unlock()"))
    etcd:pause(silent)
    local from = wait.now()
    take(other, "elsewhere")
    assert_within(wait.now() - from, 0, 2.5 + GRACE, "the move")
    -- Longer than its lease lives without being renewed elsewhere.
    wait.sleep(5.5 - (wait.now() - from))
    assert_held(holder, token)
    assert.is_nil(waiter.lines[1])
    assert.same({ "true" }, ask(holder, "return lock:unlock()"))
    assert.is_true(tonumber(answer_of(waiter, 2)[1]) > token)
  end)

  it("is left even if it was the leader", function()
    local etcd = cluster()
    local leader = leader_of(etcd)
    local endpoints = endpoints_from(etcd, leader)
    local holder, other = start(endpoints, 5), start(endpoints, 5)
    local token = take(holder, "silent_leader")
    assert.same({ "true" }, ask(other, "return assert(client:lock 'x'):unlock()"))
    etcd:pause(leader)
    local from = wait.now()
    take(other, "elsewhere2")
    assert_within(wait.now() - from, 0, STALL_MAX, "the move")
    wait.sleep(5.5 - (wait.now() - from))
    assert_held(holder, token)
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
    local etcd = cluster()
    local alone = leader_of(etcd) % 3 + 1
    local next_ones = { listener(), listener() }
    finally(function()
      proc.destroy_children()
      for _, one in ipairs(next_ones) do one.close() end
    end)
    local holder = start(etcd:endpoint(alone) .. "," .. next_ones[1].endpoint, 10)
    local other = start(etcd:endpoint(alone) .. "," .. next_ones[2].endpoint, 10)
    local token = take(holder, "alone")
    assert.same({ "true" }, ask(other, "return assert(client:lock 'x'):unlock()"))
    for i = 1, 3 do
      if i ~= alone then etcd:pause(i) end
    end
    other:send "return client:lock('x', { timeout = 4 })"
    wait.eventually(function() return next_ones[2].count > 0 end, 2.5 + GRACE,
      "the one who asks has moved")
    wait.eventually(function() return next_ones[1].count > 0 end, 5, "the holder has moved")
    local results, took = answer_of(other)
    assert.same({ "nil", "unavailable" }, { results[1], results[3] })
    assert_within(took, 4, 4 + GRACE, "the wait")
    for i = 1, 3 do
      if i ~= alone then etcd:resume(i) end
    end
    await_health(etcd)
    take(other, "x")
    assert_held(holder, token)
  end)

  it("answers at once that it is, to a call that nobody else can serve", function()
    local etcd = cluster()
    local alone = leader_of(etcd) % 3 + 1
    local child = start(etcd:endpoint(alone), 10)
    assert.same({ "true" }, ask(child, "return assert(client:lock 'y'):unlock()"))
    for i = 1, 3 do
      if i ~= alone then etcd:kill(i) end
    end
    local count = 0
    wait.eventually(function()
      count = count + 1
      local program = "return client:lock('y/%d', { timeout = 0.5 })"
      local results = ask(child, program:format(count))
      assert.same({ "nil", "unavailable" }, { results[1], results[3] })
      return results[2]:find("no leader", 1, true), results[2]
    end, 5, "it says so")
  end)
end)

describe("a cluster of which all members are down", function()
  it("is told in time, with the cause, is not hammered, and is back at once", function()
    local etcd = cluster()
    local endpoints = etcd:endpoints()
    local caller, idler, patient = start(endpoints), start(endpoints), start(endpoints)
    local fresh = start(endpoints)
    for _, child in ipairs { caller, idler, patient } do
      assert.same({ "true" }, ask(child, "return assert(client:lock 'down'):unlock()"))
    end
    for i = 1, 3 do etcd:kill(i) end
    patient:send(TAKE:format "down")
    idler:send "local from = cpu() client:lock('d', { timeout = 4 }) return cpu() - from"
    for _, child in ipairs { caller, fresh } do
      local results, took = ask(child, "return client:lock('down', { timeout = 2 })")
      assert.same({ "nil", "unavailable" }, { results[1], results[3] })
      assert.matches("refused", results[2])
      assert.matches("127%.0%.0%.1:%d+", results[2])
      assert_within(took, 2, 2 + GRACE, "the wait of 2 s")
    end
    local results, took = answer_of(idler)
    assert_within(took, 4, 4 + GRACE, "the wait of 4 s")
    local share = tonumber(results[1]) / took
    assert.is_true(share < 0.02, ("%.1f %% of a core"):format(share * 100))

    for i = 1, 3 do etcd:restart(i, { wait = false }) end
    await_health(etcd)
    local back = wait.now()
    caller:send(TAKE:format "again")
    fresh:send(TAKE:format "fresh")
    for name, child in pairs { patient = patient, caller = caller, fresh = fresh } do
      results = answer_of(child)
      assert.is_true(tonumber(results[1]) ~= nil, results[2])
      assert_within(wait.now() - back, 0, 1, "a lock after all members came: " .. name)
    end
  end)
end)

describe("an etcd that was wiped", function()
  local LOST = "local reason, _, code = lock:wait_lost(10) return reason or code"

  -- Of a client that held in |etcd|, wiped since: no lock, and no smaller token.
  local function assert_over(child, etcd, token)
    assert.same({ "false", "lost" }, ask(child, "return lock:held()"))
    for _, call in ipairs { "lock('w')", "lock('w', { timeout = 3 })", "try_lock('w')" } do
      local results = ask(child, "return client:" .. call)
      assert.same({ "nil", "conflict" }, { results[1], results[3] }, results[2])
      assert.matches("connect anew", results[2], 1, true)
    end
    -- Whoever connects anew begins with the new store.
    local anew = start(etcd:endpoint(), 2)
    assert.is_true(take(anew, "anew") < token)
  end

  -- A client that holds, after a history that a new store doesn't have.
  local function holder(endpoints)
    local child = start(endpoints, 5)
    for i = 1, 20 do
      assert.same({ "true" },
        ask(child, ("return assert(client:lock 'h%d'):unlock()"):format(i)))
    end
    return child, take(child, "wiped")
  end

  it("and begins anew on the same ports takes all locks with it for good", function()
    local etcd = single()
    local child, token = holder(etcd:endpoint())
    wipe(etcd)
    local results = ask(child, LOST, 15)
    assert.is_true(results[1] == "cluster_changed" or results[1] == "revoked"
      or results[1] == "expired" or results[1] == "deleted", results[1])
    assert_over(child, etcd, token)
  end)

  it("and has another cluster id is told apart by that", function()
    local etcd = single()
    local child, token = holder(etcd:endpoint())
    wipe(etcd, true)
    local results = ask(child, LOST, 15)
    assert.same({ "cluster_changed" }, results)
    assert_over(child, etcd, token)
  end)

  it("hands nothing to one who waited in its queue", function()
    local etcd = single()
    local child, token = holder(etcd:endpoint())
    local waiter = start(etcd:endpoint(), 5)
    waiter:send "return client:lock('wiped', { timeout = 20 })"
    wait.eventually(function() return #etcd:keys(prefix .. "wiped") == 2 end, 5, "the queue")
    wipe(etcd)
    local results = answer_of(waiter, 25)
    assert.equal("nil", results[1])
    assert.is_true(results[3] == "conflict" or results[3] == "lost", results[3])
    ask(child, LOST, 15)
    assert_over(child, etcd, token)
  end)
end)

describe("another cluster behind the second address", function()
  it("is not taken for the first", function()
    local etcd, another = single(), Etcd.start()
    finally(function()
      proc.destroy_children()
      etcd:stop()
      another:stop()
    end)
    local endpoints = etcd:endpoint() .. "," .. another:endpoint()
    local child, idle = start(endpoints, 5), start(endpoints, 5)
    take(child, "mine")
    assert.same({ "true" }, ask(idle, "return assert(client:lock 'x'):unlock()"))
    etcd:kill()
    local results = ask(idle, "return client:lock('x', { timeout = 5 })")
    assert.same({ "nil", "conflict" }, { results[1], results[3] }, results[2])
    assert.matches("another cluster", results[2])
    assert.same({ "cluster_changed" }, ask(child, "return lock:wait_lost(5)"))
    results = ask(child, "return client:lock('mine', { timeout = 5 })")
    assert.same({ "nil", "conflict" }, { results[1], results[3] }, results[2])
    for _, one in ipairs { "ping()", "queue('mine')" } do
      results = ask(child, "return client:" .. one)
      assert.same({ "nil", "conflict" }, { results[1], results[3] }, one)
    end
    -- And nothing of ours stays there.
    wait.eventually(function()
      local keys = another:keys(prefix)
      return #keys == 0 and #another:leases() == 0, table.concat(keys, " ")
    end, 10, "nothing left in the other cluster")
  end)
end)

describe("an address of IPv6", function()
  local function has_ipv6()
    local socket = uv.new_tcp()
    local found = socket:bind("::1", 0)
    socket:close()
    return found
  end

  it("is as good as any", function()
    if not has_ipv6() then return pending "this host has no IPv6" end
    local etcd = single()
    local address = "http://[::1]:" .. etcd.members[1].port
    etcd.args = { "--listen-client-urls", etcd:endpoint() .. "," .. address }
    etcd:restart()
    local child = start(address, 5)
    assert_held(child, take(child, "six"))
    assert.same({ "true" }, ask(child, "return lock:unlock()"))
    etcd:kill()
    local results = ask(child, "return client:lock('six', { timeout = 0.5 })")
    assert.matches("[::1]:" .. etcd.members[1].port, results[2], 1, true)
  end)
end)
