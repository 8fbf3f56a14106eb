-- Tests that clients of released versions and of the present one share queues: in all modes, with
-- handoff and faults. A run tests the oldest release for a short time. `make compatibility` tests
-- each release for longer, and prints how many holds each version had in each mode.
-- Needs: one plain member, no sanitizer.

local PRESENT = "present"
local IS_LONG = os.getenv "RELEASES" == "all"
local TTL = 5 -- seconds; of clients that are killed or paused
local DELAY = 2 -- seconds; their lock delay, if they have one

-- What a child runs to take the lock NAME with the options |opts|.
local TAKE = {
  lock = "client:lock('NAME', opts)",
  read = "client:read_lock('NAME', opts)",
  write = "client:write_lock('NAME', opts)",
  multi = "client:multi_lock({ 'NAME', 'NAME-2' }, opts)",
  permit = "client:semaphore('NAME', 1):lock(opts)",
  leader = "client:election('NAME'):campaign('VALUE', opts)",
}

-- Makes |child| take the lock |name| in |mode|; |opts|: further options, as Lua.
local function send_take(child, mode, name, opts)
  local call = TAKE[mode]:gsub("NAME", name)
  remote.send(child, ("opts = { timeout = 60, %s } lock = assert(%s) return true"):format(
    opts or "", call))
end

local function taken(child)
  assert.same({ "true" }, (remote.answer_of(child, 30)))
end

-- Waits until |count| entries of |name| are in etcd; other keys below the name order writes.
local function await_entries(name, count)
  wait.eventually(function()
    local entries = 0
    for _, key in ipairs(etcd:keys(prefix .. name .. "/")) do
      if key:find "/%x[%x.-]*$" then entries = entries + 1 end
    end
    return entries == count
  end, 5, count .. " entries of " .. name)
end

-- The modes of the waiters in a queue. `groups`: which of them hold at the same time, in this order
-- (nil: one after the other). The lock before them has the mode of the first waiter; before a
-- reader, the mode "write".
local QUEUES = {
  { "lock", "lock", "lock", "lock" },
  { "lock", "multi", "lock", "multi" },
  { "write", "write", "write", "write" },
  { "read", "read", "write", "read", "write", groups = { { 1, 2 }, { 3 }, { 4 }, { 5 } } },
  { "permit", "permit", "permit", "permit" },
  { "leader", "leader", "leader", "leader" },
}

-- ---- the judge of a load ----------------------------------------------------------

local EXCLUSIVE = { lock = true, multi = true, write = true, leader = true }
-- The codes with which calls may fail while a member is paused or a client stands still.
local MAY_FAIL = { lost = true, unavailable = true, not_held = true }

-- Adds the results in the lines of |agent| (see agent.lua) to |all|.
local function read_results(agent, all)
  for line in agent.child.out.text:gmatch "[^\n]+" do
    local mode, names, token, from, to = line:match "^hold (%S+) (%S+) (%S+) (%S+) (%S+)$"
    local call, code = line:match "^failed (%S+) (%S+)"
    local counter, value = line:match "^wrote (%S+) (%d+)"
    if mode then
      for name in names:gmatch "[^,]+" do
        all.holds[name] = all.holds[name] or {}
        table.insert(all.holds[name], {
          mode = mode, token = tonumber(token), from = tonumber(from), to = tonumber(to),
          agent = agent, text = agent.version .. " " .. line,
        })
      end
      all.counts[agent.version][mode] = (all.counts[agent.version][mode] or 0) + 1
    elseif call then
      assert.is_true(MAY_FAIL[code] or false, agent.version .. ": " .. line)
    elseif counter then
      local values = all.values[counter] or {}
      all.values[counter] = values
      assert.is_nil(values[value], ("two holders have set %s to %s: of %s and %s"):format(counter,
        value, tostring(values[value]), agent.version))
      values[value] = agent.version
    end
  end
end

local function judge_permits(holds)
  local changes = {}
  for _, hold in ipairs(holds) do
    table.insert(changes, { at = hold.from, by = 1, text = hold.text })
    table.insert(changes, { at = hold.to, by = -1, text = hold.text })
  end
  table.sort(changes, function(one, other)
    return one.at < other.at or one.at == other.at and one.by < other.by
  end)
  local held = 0
  for _, change in ipairs(changes) do
    held = held + change.by
    assert.is_true(held <= 2, "a third holder: " .. change.text)
  end
end

-- Fails if two holds of one name exclude each other and overlap, or if a hold has a smaller token
-- than one before it that excludes it: then the later request was granted first.
local function judge_holds(holds)
  table.sort(holds, function(one, other) return one.from < other.from end)
  local last, last_exclusive
  for _, hold in ipairs(holds) do
    local is_exclusive = EXCLUSIVE[hold.mode]
    for _, before in ipairs { last_exclusive or false, is_exclusive and last or false } do
      if before then
        local both = before.text .. "\n" .. hold.text
        assert.is_true(before.to < hold.from, "two holders:\n" .. both)
        assert.is_true(before.token < hold.token
          or before.token == hold.token and before.agent == hold.agent, "not in order:\n" .. both)
      end
    end
    if is_exclusive then last_exclusive = hold end
    -- The hold that ends last of those that began before the next one.
    if not last or hold.to > last.to then last = hold end
  end
end

local function judge(agents, versions)
  local all = { holds = {}, counts = {}, values = {} }
  for _, version in ipairs(versions) do all.counts[version] = {} end
  for _, agent in ipairs(agents) do read_results(agent, all) end
  for name, holds in pairs(all.holds) do
    if name == "permits" then judge_permits(holds) else judge_holds(holds) end
  end
  return all.counts
end

-- Returns a line with the number of holds of |version| in each mode. Fails if a mode had none.
local function describe_counts(version, counts)
  local cells = {}
  for i, mode in ipairs { "lock", "read", "write", "permit", "multi", "leader" } do
    cells[i] = ("%s %d"):format(mode, counts[mode] or 0)
    assert.is_true((counts[mode] or 0) > 0, version .. " had no hold: " .. mode)
  end
  return ("  %-8s %s"):format(version, table.concat(cells, ", "))
end

-- ---- the tests ------------------------------------------------------------------------

for _, release in ipairs(releases.TESTED) do
  local env, its_command -- the second is the reason if the first is nil

  -- it, skipped if the release cannot run here.
  local function test(text, run)
    it(text, function()
      if not env then return pending(its_command) end
      run()
    end)
  end

  -- Defines two tests, which call run(is_first). If |is_first|, the first child is of the release,
  -- otherwise the second.
  local function test_both(text, run)
    test(text .. ", the release first", function() run(true) end)
    test(text .. ", this version first", function() run(false) end)
  end

  -- Starts |count| children, one of the release, one of this version and so on; |is_first|: the
  -- first is of the release. |options|: by child, those of connect.
  local function start(count, is_first, options)
    local envs, opts = {}, {}
    for i = 1, count do
      if (i % 2 == 1) == is_first then envs[i] = env end
      opts[i] = clients.with({
        endpoints = suite.endpoints(), prefix = prefix, ttl = wait.ttl(30),
      }, options and options[i])
    end
    return remote.start_all(opts, envs)
  end

  -- Closes the clients of |children| and fails if anything is left in etcd.
  local function close_all(children)
    for _, child in ipairs(children) do
      assert.same({ "true" }, (remote.ask(child, "return client:close()")))
    end
    wait.eventually(function()
      local left = etcd:keys(prefix)
      return not left[1] and not etcd:leases()[1], table.concat(left, " ")
    end, 5, "no key and no lease is left")
  end

  describe("clients of etcdlock " .. release.version .. " and of this version", function()
    setup(function() env, its_command = releases.build(release) end)
    after_each(function() -- records of jobs, and what a failed test has left
      etcd:del_all ""
      etcd:revoke_all()
    end)

    for _, queue in ipairs(QUEUES) do
      test_both("get locks in order: " .. table.concat(queue, ", "), function(is_first)
        local children = start(#queue + 1, not is_first)
        local holder = table.remove(children, 1)
        send_take(holder, queue[1] == "read" and "write" or queue[1], "order")
        taken(holder)
        for i, mode in ipairs(queue) do
          send_take(children[i], mode, "order")
          await_entries("order", i + 1)
        end
        remote.release(holder)
        for _, group in ipairs(queue.groups or { { 1 }, { 2 }, { 3 }, { 4 } }) do
          for _, i in ipairs(group) do taken(children[i]) end
          assert(remote.ask(holder, "return client:ping()"))
          for i = group[#group] + 1, #queue do remote.assert_waits(children[i]) end
          for _, i in ipairs(group) do remote.release(children[i]) end
        end
        table.insert(children, holder)
        close_all(children)
      end)
    end

    test_both("wait for the TTL and the lock delay of a killed holder", function(is_first)
      -- In 0.2.0 and 0.2.1-1, the lock delay is an option of a lock call.
      local is_of_call = is_first and release.has_delay_in_calls
      local children = start(2, is_first, {
        { ttl = TTL, lock_delay = not is_of_call and DELAY or nil }, { ttl = TTL },
      })
      send_take(children[1], "lock", "delayed", is_of_call and "lock_delay = " .. DELAY or nil)
      taken(children[1])
      send_take(children[2], "lock", "delayed")
      await_entries("delayed", 2)
      children[1]:kill()
      local killed = wait.now()
      taken(children[2])
      local took = wait.now() - killed
      -- The last keepalive was sent up to TTL / 3 before.
      remote.assert_within(took, TTL * 2 / 3 - 0.5 + DELAY, TTL + DELAY + 1 + wait.SLACK)
      remote.release(children[2])
      close_all { children[2] }
    end)

    test_both("show and break each other's holds", function(is_first)
      local children = start(2, is_first)
      send_take(children[1], "write", "broken", "value = 'why'")
      taken(children[1])
      assert.same({ "true", ("%d"):format(children[1].pid), "write", "why" },
        (remote.ask(children[2], [[
          entry = client:queue("broken")[1]
          return entry.held, entry.pid, entry.mode, entry.value]])))
      assert.same({ "true" },
        (remote.ask(children[2], "return client:break_lock('broken', entry.token)")))
      assert.same({ "deleted" }, (remote.ask(children[1], "return lock:wait_lost(5)")))
      close_all(children)
    end)

    test_both("observe each other's leaders", function(is_first)
      local children = start(2, is_first)
      remote.ask(children[2], "observer = client:election('service'):observe() return true")
      assert.same({ "true" }, (remote.ask(children[1], [[
        lock = assert(client:election("service"):campaign("one", { timeout = 5 }))
        return true]])))
      assert.same({ "one" }, (remote.ask(children[2], "return (observer:next(10))")))
      assert.same({ "true" }, (remote.ask(children[1], "return (lock:proclaim 'two')")))
      assert.same({ "two" }, (remote.ask(children[2], "return (observer:next(10))")))
      remote.release(children[1])
      assert.same({ "false" }, (remote.ask(children[2], "return (observer:next(10))")))
      close_all(children)
    end)

    test_both("share the record of a job: etcdlock run --once-per", function(is_first)
      -- Names with a slash have another record in 0.2.0 and 0.2.1-1.
      local args = { "run", "job", "--once-per", "1d", "-E", "0", "--", "echo", "ran" }
      local function run(is_of_release)
        local all = clients.with(suite.variables(), is_of_release and env or nil)
        for name, value in pairs(is_of_release and env or {}) do all[name] = value end
        return proc.run_lua(is_of_release and its_command or "bin/etcdlock", args, { env = all })
      end
      local out, _, err = run(is_first)
      assert.equal("ran\n", out, err)
      out, _, err = run(not is_first)
      assert.equal("", out .. err)
    end)

    test("never have two holders under load and with faults, and leave nothing", function()
      local cluster = suite.start { members = 3 }
      local agents, seconds = {}, IS_LONG and 60 or 12
      for i = 1, 6 do
        local is_of_release = i % 2 == 1
        agents[i] = {
          version = is_of_release and release.version or PRESENT,
          child = proc.talk_lua("spec/compatibility/agent.lua", { json.encode {
            endpoints = cluster:endpoints(), prefix = prefix, ttl = TTL, seconds = seconds,
            owners = 8, seed = i,
          } }, is_of_release and env or nil),
        }
      end
      for _, agent in ipairs(agents) do agent.child:expect("^ready", 20) end
      local from = wait.now()
      local function until_second(number) wait.sleep(from + number * seconds / 12 - wait.now()) end
      -- Of each version, one client stands still for longer than the TTL, and one is killed.
      until_second(1)
      agents[1].child:kill "sigstop"
      agents[2].child:kill "sigstop"
      until_second(3)
      cluster:pause(1)
      wait.sleep(2)
      cluster:resume(1)
      wait.sleep(from + seconds / 12 + TTL + 1 - wait.now())
      agents[1].child:kill "sigcont"
      agents[2].child:kill "sigcont"
      until_second(9)
      agents[3].child:kill()
      agents[4].child:kill()
      for _, i in ipairs { 1, 2, 5, 6 } do
        agents[i].child:expect("^closed", seconds + 60)
        agents[i].child:wait()
      end
      local counts = judge(agents, { release.version, PRESENT })
      print(("  holds of clients that shared queues on etcd %s:"):format(matrix.etcd_version()))
      for _, version in ipairs { release.version, PRESENT } do
        print(describe_counts(version, counts[version]))
      end
      wait.eventually(function()
        local left = cluster:keys(prefix)
        for _, key in ipairs(left) do
          if not key:find "/counter/" then return false, table.concat(left, " ") end
        end
        return not cluster:leases()[1], "leases"
      end, TTL + 5, "no key and no lease is left")
    end)
  end)
end

describe("doc/compatibility.md", function()
  it("has a row for each released version", function()
    local text = assert(read_file "doc/compatibility.md")
    for _, release in ipairs(releases.ALL) do
      assert.is_truthy(text:find("\n| " .. release.version:gsub("%p", "%%%0") .. "[ ,]"),
        release.version)
    end
  end)
end)
