-- Tests the `log` option of a client: which events the function gets, their fields, and their
-- text as a line.

client_options { ttl = 5 }
local LOCK_A = '^etcdlock: lock "' .. prefix .. 'a": ' -- how the line of an event begins
local told

local function note(event) told[#told + 1] = event end

-- Records |event|, unless it is "waiting". If etcd is busy, any call may have to wait. So only the
-- tests of waits record such events, with |note|.
local function note_others(event)
  if event.event ~= "waiting" then note(event) end
end

local function connect_told(changes)
  told = {}
  return connect(clients.with({ log = note_others }, changes))
end

-- Returns the events of the kind |kind| that were recorded so far.
local function of_kind(kind)
  local list = {}
  for _, event in ipairs(told) do
    if event.event == kind then list[#list + 1] = event end
  end
  return list
end

local function kinds()
  local list = {}
  for i, event in ipairs(told) do list[i] = event.event end
  return table.concat(list, " ")
end

local function collect()
  collectgarbage()
  collectgarbage()
end

describe("the log function", function()
  it('gets "acquired" and "released", with the seconds of the wait and of the hold', function()
    local client, from = connect_told(), wait.now()
    local lock = assert(client:lock "a")
    assert(client:lock "a" == lock and lock:unlock()) -- reentrant: no event
    wait.sleep(0.05)
    assert(lock:unlock())
    local took = wait.now() - from
    assert.equal("acquired released", kinds())
    local acquired, released = told[1], told[2]
    assert.same({ prefix .. "a", "lock", lock:token(), "info", 0 }, { acquired.name, acquired.mode,
      acquired.token, acquired.level, acquired.ago })
    assert.is_true(acquired.wait > 0 and acquired.wait < took - 0.05, acquired.wait)
    assert.same({ prefix .. "a", "lock", lock:token(), "info", "unlock" },
      { released.name, released.mode, released.token, released.level, released.by })
    assert.is_true(released.hold >= 0.05 and released.hold < took, released.hold)
    assert.matches(LOCK_A .. "acquired after [%d.e-]+ s, token %d+$", tostring(acquired))
    assert.matches(LOCK_A .. "released after [%d.]+ s, token %d+$", tostring(released))
    assert.equal("<" .. tostring(acquired) .. ">\n", "<" .. acquired .. ">\n")
  end)

  it('gets "waiting" during a wait, and "acquired" with the length of the whole wait', function()
    local held = assert(connect { elsewhere = true }:lock "a")
    local client = connect_told { log = function(event)
      note(event)
      if event.event == "waiting" then assert(held:unlock()) end
    end }
    assert(client:lock("a", { timeout = 20 })):unlock()
    assert.equal("waiting acquired released", kinds())
    assert.same({ prefix .. "a", "lock", 20 }, { told[1].name, told[1].mode, told[1].timeout })
    assert.is_true(told[1].wait >= 0.1)
    assert.is_true(told[2].wait > told[1].wait)
    assert.matches(LOCK_A .. "still waiting after [%d.]+ s$", tostring(told[1]))
  end)

  it('gets "not_acquired" with the code of a failed lock or try_lock', function()
    local client, other = connect_told { log = note }, connect { elsewhere = true }
    clients.keep(assert(other:lock "a"))
    assert(client:ping())
    assert.is_nil((client:lock("a", { timeout = 1 })))
    assert.equal("waiting not_acquired", kinds())
    assert.is_nil((client:try_lock "a"))
    local tried = of_kind "not_acquired"[2]
    assert.same({ "timeout", "warn" }, { told[2].code, told[2].level })
    assert.same({ "locked", "info" }, { tried.code, tried.level })
    assert.equal(tried, told[#told])
    assert.is_true(told[2].wait >= 1)
    assert.matches("not acquired after [%d.]+ s, timeout: lock .* was not free within 1 s",
      tostring(told[2]))
  end)

  it('gets "not_acquired" for a deadlock within the process', function()
    local client = connect_told()
    local lock = assert(client:lock "a")
    assert_fails("deadlock", client:lock("a", { owner = "somebody else" }))
    assert.equal("acquired not_acquired", kinds())
    lock:unlock()
  end)

  it('gets "raised" with the traceback of an error inside with_lock in a coroutine', function()
    local client = connect_told()
    local function deep_down() error "oops" end
    local ok, failure = coroutine.resume(coroutine.create(function()
      client:with_lock("a", function()
        client:with_lock("b", function()
          deep_down()
          return nil
        end)
        return nil
      end)
    end))
    assert.is_false(ok)
    assert.matches("oops$", failure)
    local raised = of_kind "raised"
    assert.equal(1, #raised) -- for "b", and not again for "a"
    assert.same({ prefix .. "b", "lock", "warn" },
      { raised[1].name, raised[1].mode, raised[1].level })
    assert.matches("oops\nstack traceback:\n.*deep_down", raised[1].message)
    assert.equal(raised[1].message, etcdlock.traceback())
    assert.matches('^etcdlock: lock "' .. prefix
      .. 'b": the function of with_lock raised an error: [^\n]*oops | '
      .. "stack traceback: | [^\n]*deep_down", tostring(raised[1]))
  end)

  it('gets "lost" with the reason, in a later call', function()
    local client, other = connect_told(), connect()
    local lock = assert(client:lock "a")
    assert(other:break_lock("a", lock:token()))
    wait.eventually(function() return not lock:held() end)
    assert.is_nil((lock:unlock()))
    lock = assert(client:lock("b", { max_hold = 0.02 }))
    wait.eventually(function() return not lock:held() end)
    assert.equal("acquired lost acquired lost", kinds())
    assert.same({ prefix .. "a", "deleted", "warn" },
      { told[2].name, told[2].reason, told[2].level })
    assert.same({ prefix .. "b", "max_hold", lock:token() },
      { told[4].name, told[4].reason, told[4].token })
    assert.is_true(told[4].hold >= 0.02)
    assert.matches(LOCK_A .. "lost after [%d.]+ s, token %d+, deleted: the key was deleted",
      tostring(told[2]))
  end)

  it('gets a pending "lost" during put, get, queue, ping and unlock', function()
    local client = connect_told()
    local lock = assert(client:lock "a")
    for i, ask in ipairs {
      function() assert(lock:put("log/of/a", "x")) end,
      function() assert(lock:get "log/of/a") end,
      function() assert(client:queue "a") end,
      function() assert(client:ping()) end,
      function() assert(lock:unlock()) end,
    } do
      local lost = assert(client:lock("b", { max_hold = 0.02, owner = i }))
      wait.eventually(function() return client:stats().lost == i end)
      ask()
      assert.equal(i, #of_kind "lost")
      assert_fails("lost", lost:unlock())
    end
  end)

  it('gets one "lost" for a loss that held() and unlock() both report', function()
    local client = connect_told()
    for _ = 1, 5 do
      local lock = assert(client:lock("a", { max_hold = 0.02, timeout = 5 }))
      while lock:held() do end -- luacheck: ignore 542
      lock:unlock()
    end
    assert(client:lock "b"):unlock()
    assert.equal(5, #of_kind "lost")
    assert.equal(1, #of_kind "released")
  end)

  it("gets the name and mode of multi-locks, read locks, permits and leaderships", function()
    local client = connect_told()
    assert(client:with_multi_lock({ "a", "b" }, function() end))
    assert(client:with_read_lock("c", function() end))
    assert(assert(client:semaphore("d", 2)):with_lock(function() end))
    assert(assert(client:election "e"):with_leadership("me", function() end))
    local seen = {}
    for i, event in ipairs(of_kind "released") do seen[i] = event.name .. " " .. event.mode end
    assert.same({
      ("%sa %sb multi"):format(prefix, prefix), prefix .. "c read", prefix .. "d permit",
      prefix .. "e leader",
    }, seen)
  end)

  it('gets "lost" with mode "leader" for a leadership, "read" for a downgraded lock', function()
    local labels = {}
    local client = connect_told { metrics = function(_, mode)
      labels[mode] = true
      return mode
    end }
    local lead = assert(assert(client:election "e"):campaign("me", { max_hold = 0.02 }))
    wait.eventually(function() return not lead:held() end)
    local lock = assert(client:write_lock("c"))
    assert(lock:downgrade() and lock:expire(0.02))
    wait.eventually(function() return not lock:held() end)
    local seen = {}
    for i, event in ipairs(of_kind "lost") do seen[i] = event.name .. " " .. event.mode end
    assert.same({ prefix .. "e leader", prefix .. "c read" }, seen)
    assert.same({ leader = true, write = true, read = true }, labels)
  end)

  it('gets "released" with by = "close" for a lock that close releases', function()
    local client = connect_told()
    clients.keep(assert(client:lock "a"))
    client:close()
    assert.equal("acquired released", kinds())
    assert.equal("close", told[2].by)
  end)

  it('gets "acquired" and "released" for each hold of a lingering lock', function()
    local client, from, sum = connect_told(), wait.now(), 0
    for _ = 1, 3 do
      local lock = assert(client:lock("a", { linger = 5 }))
      wait.sleep(0.05)
      assert(lock:unlock())
    end
    assert.equal("acquired released acquired released acquired released", kinds())
    assert.equal(told[1].token, told[5].token)
    for _, event in ipairs(of_kind "released") do sum = sum + event.hold end
    assert.is_true(sum >= 0.15 and sum <= wait.now() - from, sum)
  end)

  it('gets at most 4 "retry" events, which together count all failed attempts', function()
    local client = connect_told { endpoints = "127.0.0.1:1" }
    local asked = assert(client:lock_async("a", { timeout = 600 }))
    wait.eventually(function() return client:stats().failed_attempts >= 8 end, 10, "failures")
    asked:cancel()
    client:close() -- ends the retries
    local count = 0
    assert.is_true(#of_kind "retry" <= 4, #of_kind "retry")
    for _, event in ipairs(of_kind "retry") do
      assert.matches("127.0.0.1:1", event.message, 1, true)
      assert.matches("^etcdlock: %d+ requests? to etcd failed; ", tostring(event))
      count = count + event.count
    end
    assert.is_true(count >= 8)
    assert.equal(client:stats().failed_attempts, count)
  end)

  -- Regression 284. Each failed attempt was a line: 42 in 30 s in each process. No line said that
  -- etcd answered again.
  it('gets one "retry" in 10 s for a cause, and one "recovered" when etcd answers again', function()
    local client, server, first, second
    local function counts() return { #of_kind "retry", #of_kind "recovered" } end
    local function fail_and_recover(name)
      local failed = client:stats().failed_attempts
      server:answer("Txn", "before", error_rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
      local asked = assert(client:lock_async(name))
      wait.eventually(function()
        assert(client:metrics()) -- delivers events
        return client:stats().failed_attempts >= failed + 3
      end, 10, "failures")
      server:pass()
      clients.granted(asked):unlock()
      assert(client:ping()) -- delivers the last event
      return counts()
    end
    wait.eventually(function()
      server = clients.scripted()
      client = connect_told { endpoints = server:endpoint() }
      assert(client:lock "a"):unlock()
      local from = wait.now()
      -- The second outage is reported when 10 s are over, or at close.
      first, second = fail_and_recover "b", fail_and_recover "c"
      client:close()
      return wait.now() - from < 9
    end, 9, "two outages in less than 10 s")
    assert.same({ { 1, 1 }, { 1, 1 }, { 2, 2 } }, { first, second, counts() })
    local sum, recovered = 0, of_kind "recovered"[1]
    for _, event in ipairs(told) do
      sum = sum + ((event.event == "retry" or event.event == "recovered") and event.count or 0)
    end
    assert.equal(client:stats().failed_attempts, sum)
    assert.equal("warn", recovered.level)
    assert.is_true(recovered.outage > 0 and recovered.outage < 60, recovered.outage)
    assert.matches("^etcdlock: etcd answers again after [%d.]+ s; %d+ more requests? failed$",
      tostring(recovered))
  end)

  -- Regression 285. A standby that waited for the leadership was a warning after 10.5 s, and again
  -- after each timeout.
  it("gets no warning about a candidate while another one leads", function()
    local client = connect_told()
    client._long_wait = 0.2
    clients.keep(assert(other:election "leader":campaign "other"))
    assert_fails("timeout", client:election("leader"):campaign("me", { timeout = 0.5 }))
    clients.keep(assert(other:lock "a"))
    assert_fails("timeout", client:lock("a", { timeout = 0.5 }))
    local levels = {}
    for _, event in ipairs(told) do levels[event.name .. " " .. event.event] = event.level end
    assert.same({
      [prefix .. "leader still_waiting"] = "info", [prefix .. "leader not_acquired"] = "info",
      [prefix .. "a still_waiting"] = "warn", [prefix .. "a not_acquired"] = "warn",
    }, levels)
  end)

  it('gets the events of a lock_async wait during step and cancel', function()
    local client, other = connect_told { log = function(event)
      if event.name == prefix .. "a" then note(event) else note_others(event) end
    end }, connect { elsewhere = true }
    local held = assert(other:lock "a")
    local first = assert(client:lock_async "a")
    wait.eventually(function() return not first:step() and told[1] end)
    local second = assert(client:lock_async("b", { timeout = 5 }))
    clients.granted(second):unlock()
    assert.is_true(first:cancel())
    assert.equal("waiting acquired released not_acquired", kinds())
    assert.equal("cancelled", told[4].code)
    held:unlock()
  end)

  it('gets "not_acquired" with "closed" for lock and lock_async on a closed client', function()
    local client = connect_told()
    client:close()
    assert_fails("closed", client:lock "a")
    assert_fails("closed", client:lock_async "a")
    assert.equal("not_acquired not_acquired", kinds())
    assert.same({ "closed", "closed" }, { told[1].code, told[2].code })
  end)
end)

describe("the log of a client", function()
  it('drops events beyond log_rate, and counts them in "suppressed" events', function()
    local client = connect_told { log_rate = 3 }
    for _ = 1, 40 do assert(client:lock "a"):unlock() end
    client:close()
    local counts = { acquired = #of_kind "acquired", released = #of_kind "released" }
    assert.is_true(counts.acquired >= 3 and counts.acquired < 40, counts.acquired)
    for _, event in ipairs(of_kind "suppressed") do
      counts[event.of] = counts[event.of] + event.count
      assert.matches('^etcdlock: %d+ more "%a+" events suppressed$', tostring(event))
    end
    assert.same({ acquired = 40, released = 40 }, counts)
  end)

  it('gets "suppressed" with a later event, before the client is closed', function()
    local client = connect_told { log_rate = 1 }
    for _ = 1, 10 do assert(client:lock "a"):unlock() end
    wait.eventually(function()
      client:try_lock("a"):unlock()
      return of_kind "suppressed"[1]
    end)
  end)

  it('gets at least 100 of 200 "leaked" events, and a "suppressed" count of the rest', function()
    local client = connect_told { log_rate = math.huge }
    local function take_many()
      local asked = {}
      for i = 1, 200 do asked[i] = assert(client:lock_async("many/" .. i, { owner = i })) end
      for i = 1, 200 do asked[i] = clients.granted(asked[i]) end
    end
    take_many()
    collect()
    assert(client:lock "a"):unlock()
    local suppressed = assert(of_kind "suppressed"[1] or client:close() and of_kind "suppressed"[1])
    assert.equal("leaked", suppressed.of)
    local count = client:stats().leaked -- LuaJIT may keep one handle
    assert.is_true(count >= 199)
    assert.equal(count, #of_kind "leaked" + suppressed.count)
    assert.is_true(#of_kind "leaked" >= 100)
  end)

  it('may call lock; the events of that lock are only counted in "suppressed"', function()
    local client, tokens = nil, {}
    client = connect { log_rate = math.huge, log = function(event)
      if event.event == "waiting" or event.of == "waiting" then return end
      tokens[#tokens + 1] = event.event
      -- This event comes during close, when no lock can be taken.
      if event.event == "suppressed" then return end
      assert(client:lock("log", { timeout = 5 })):unlock()
    end }
    assert(client:lock "a"):unlock()
    client:close()
    table.sort(tokens)
    assert.same({ "acquired", "released", "suppressed", "suppressed" }, tokens)
  end)

  -- Runs |source| in a program whose client has the log function |log|, both Lua text.
  local function run_logging(log, source)
    return variables.outputs(suite.variables(), ([[
      local client = assert(require("etcdlock").connect { prefix = %q, log = %s })
      %s
      client:close()
    ]]):format(prefix, log, source))
  end

  it("that raises an error breaks no lock; standard error shows the error once", function()
    local out, err = run_logging('function() error { "oops" } end', [[
      for _ = 1, 3 do
        print(client:with_lock("a", function(lock) return lock:held() end))
      end
    ]])
    assert.equal(3, select(2, out:gsub("true\ttrue\t", "")))
    assert.matches("^etcdlock: the log function of this client failed %(reported once%): table",
      err)
    assert.equal(1, select(2, err:gsub("\n", "")))
  end)

  it("cannot yield: the attempt is an error, and the lock call succeeds", function()
    local out, err = run_logging("coroutine.yield", [[
      local thread = coroutine.create(function()
        local lock = assert(client:lock "a")
        print(lock:held())
        print(lock:unlock())
      end)
      print(coroutine.resume(thread))
      print(coroutine.status(thread))
    ]])
    assert.matches("^true\t[%d.]+\ntrue\ntrue\ndead\n$", out)
    assert.matches("failed (reported once): attempt to yield", err, 1, true)
  end)

  it("has exactly the event kinds that doc/observability.md lists", function()
    local described = {}
    local rows = assert(read_file "doc/observability.md")
      :match "\n## The log\n.-\n|%-[^\n]*(\n.-\n)\n"
    for kind in rows:gmatch "\n| `([%l_]+)` |" do described[#described + 1] = kind end
    local known = { (table.unpack or unpack)(require("etcdlock.events").KINDS) }
    table.sort(described)
    table.sort(known)
    assert.same(known, described)
  end)
end)

it("a client without a log records no events except leaked and lost locks", function()
  local client = connect()
  clients.keep(assert(client:lock "b"))
  local lock = assert(client:lock("a", { max_hold = 0.02 }))
  wait.eventually(function() return client:stats().lost == 1 end)
  assert.equal("lost", client._core:next_event().event)
  assert.is_nil((client._core:next_event()))
  assert_fails("lost", lock:unlock())
  client:close() -- otherwise the end of "b" would be an event
  assert.is_nil((client._core:next_event()))
  for kind, count in pairs(client._core:dropped_events()) do assert.equal(0, count, kind) end
end)

-- Regression 136. close of a client with several endpoints logged a failover, because it cancels
-- the calls.
it("close of a client with two endpoints reports no failover", function()
  local events, endpoint = {}, suite.endpoint()
  local connect = clients.connector {
    endpoints = { endpoint, (endpoint:gsub("127%.0%.0%.1", "localhost")) }, prefix = prefix,
    log = function(event)
      if event.event ~= "waiting" then events[#events + 1] = event.event end
    end,
  }
  local client, other = connect(), connect { elsewhere = true, log = NONE }
  local held = assert(other:lock "a")
  local waiter = assert(client:lock_async "a") -- its watch is a call that does not end
  clients.assert_wait(waiter)
  assert.is_true(held:unlock())
  assert.is_true(clients.granted(waiter):unlock())
  client:close()
  assert.same({ "acquired", "released" }, events)
end)

-- Regression 286. Outside of nginx a lost lock left no trace if the client had no option `log`.
describe("outside of nginx, without a log", function()
  -- Runs |work|, Lua text, in a program with a client; returns what it writes to standard error.
  local function said(work)
    return (select(2, variables.outputs(suite.variables(), ([[
      local etcdlock = require "etcdlock"
      local options = { prefix = %q, ttl = 30 }
      local client, other = etcdlock.connect(options), etcdlock.connect(options)
      local function lose()
        local lock = assert(client:lock "a")
        assert(other:break_lock("a", lock:token()))
        while client:stats().lost == 0 do client:ping() end
        return lock
      end
      %s]]):format(prefix, work))))
  end

  it("a lost lock is one line on standard error, whichever call finds it first", function()
    for _, find in ipairs {
      "local lock = lose(); assert(not lock:held() and not lock:unlock())",
      "local lock = lose(); assert(not lock:unlock())",
      'local lock = lose(); assert(client:lock "b"):unlock(); assert(not lock:held())',
      "local lock = lose(); client:close()",
    } do
      assert.matches(LOCK_A .. "lost after [%d.]+ s, token %d+, deleted: [^\n]+\n$", said(find))
    end
  end)

  it("a lock that max_hold has ended is no line", function()
    assert.equal("", said [[
      local lock = assert(client:lock("a", { max_hold = 0.02 }))
      while lock:held() do end
      assert(not lock:unlock())
      client:close()]])
  end)
end)
