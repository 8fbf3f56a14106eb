-- Tests client:once, which runs a function once in each period, and client:runs, which lists the
-- last runs. spec/command/once_spec.lua tests the rules of periods, which etcdlock run shares.

local HOUR, DAY = 3600, 86400
local LONG = 10000 * DAY -- a period so long that none ends during a test

local assert_ran = clients.assert_ran

-- The full name of the lock "a", as a pattern.
local A = prefix:gsub("%p", "%%%0") .. "a"

local function never() error "was run" end

local function key_of(name) return prefix .. name .. ".last-run" end

local function record_of(name)
  local text = etcd:get(key_of(name))
  return text and json.decode(text)
end

-- Writes the record of a run of |name| that started |seconds| ago and took 2.5 s.
local function record_run(name, seconds)
  local started = os.time() - seconds
  etcd:put(key_of(name), json.encode {
    started = started, ended = started + 3, seconds = 2.5, host = "web-9", pid = 4711,
  })
end

-- Fails unless the results of client:once say that there was nothing to do. Returns the message and
-- the run.
local function assert_skipped(ran, message, run, ...)
  assert.is_false(ran, message)
  assert.matches('^lock ".*": nothing to do', message)
  assert.equal(0, select("#", ...))
  return message, run
end

after_each(clear_etcd)

describe("client:once", function()
  it("runs the function under the lock, and returns true and its results, also nil", function()
    local function results(...) return select("#", ...), { ... } end
    local n, list = results(client:once("a", LONG, function(lock)
      assert.is_true(lock:check())
      assert.equal("a", lock:name())
      return nil, 2, nil
    end))
    assert.equal(4, n)
    assert.same({ true, nil, 2 }, list)
    assert.same({}, client:queue "a")
  end)

  it("does not run the function again in the period, and says when and where it ran", function()
    local before = os.time()
    assert.is_true(client:once("a", LONG, function() end))
    local message, run = assert_skipped(other:once("a", LONG, never))
    assert.equal(('lock "%sa": nothing to do in this period: run by pid %d on %s at %s'):format(
      prefix, core.pid(), core.host(), os.date("%Y-%m-%d %H:%M:%S", run.started)), message)
    assert.same(client:runs(), { run })
    assert.same({ "a", core.host(), core.pid() }, { run.name, run.host, run.pid })
    assert.is_true(before <= run.started and run.started <= run.ended and run.ended <= os.time())
    assert.is_true(run.seconds >= 0 and run.seconds < os.time() - before + 1)
  end)

  it("runs the function in the next period", function()
    for _, period in ipairs { DAY, HOUR, 30 } do
      record_run("a", period)
      assert.is_true(client:once("a", period, function() end))
      assert_skipped(client:once("a", 10000 * DAY, never))
    end
  end)

  it('runs the function once with the period "ever"', function()
    assert.is_true(client:once("a", "ever", function() end))
    record_run("a", 10000 * DAY)
    assert.matches('^lock "' .. A .. '": nothing to do: run by pid 4711 on web%-9 at ',
      (assert_skipped(client:once("a", "ever", never))))
  end)

  it("measures how long the function runs, without the wait for the lock", function()
    local holder = assert(other:lock "a")
    local child = remote.start { endpoints = etcd:endpoints(), prefix = prefix }
    remote.send(child, "return client:once('a', 864000000, function() end)")
    wait.eventually(function() return #client:queue "a" == 2 end)
    local from = os.time()
    wait.eventually(function() return os.time() >= from + 2 end)
    assert.is_true(holder:unlock())
    assert.same({ "true" }, remote.answer_of(child))
    local record = record_of "a"
    assert.is_true(record.seconds < 2 and record.ended >= record.started + 2)
  end)

  it("raises the same error as the function, records nothing, and runs it again", function()
    local object = setmetatable({}, { __tostring = function() return "an object" end })
    for _, thrown in ipairs { object, "text", false } do
      local ok, caught = pcall(client.once, client, "a", LONG, function() error(thrown, 0) end)
      assert.is_false(ok)
      assert.equal(thrown, caught)
      assert.is_nil(record_of "a")
      assert.same({}, client:queue "a")
    end
    assert.same({ true, nil, "no stock" }, { client:once("a", LONG, function()
      return nil, "no stock"
    end) })
    assert_skipped(client:once("a", LONG, never))
  end)

  it("shares lock, record and rules with etcdlock run --once-per", function()
    local function run(script)
      return select(2, command.run { "--prefix", prefix, "run", "a/b", "--once-per=10000d", "--",
        "sh", "-c", script })
    end
    assert.equal(0, run "exit 0")
    local _, last = assert_skipped(client:once("a/b", LONG, never))
    assert.is_true(last.seconds > 0 and last.pid ~= core.pid())
    etcd:del(prefix .. "a%2Fb.last-run")
    assert.equal(3, run "exit 3")
    assert.is_true(client:once("a/b", LONG, function()
      local _, status, err = command.run { "--prefix", prefix, "run", "a/b", "--timeout=0", "true" }
      assert.equal(75, status, err)
    end))
    assert.equal(75, run "exit 0")
  end)

  it("waits for a run of another client, and runs the function only if that run fails", function()
    local child = remote.start { endpoints = etcd:endpoints(), prefix = prefix }
    for name, script in pairs { failed = "error('failed', 0)", done = "return 1" } do
      remote.send(child, ([[
        return client:once('%s', 864000000, function()
          io.read()
          %s
        end)
      ]]):format(name, script))
      wait.eventually(function() return client:queue(name)[1] end)
      assert_fails("locked", client:once(name, LONG, { timeout = 0 }, never))
      local waiter = remote.start { endpoints = etcd:endpoints(), prefix = prefix }
      remote.send(waiter, ("return client:once('%s', 864000000, function() return 2 end)")
        :format(name))
      wait.eventually(function() return #client:queue(name) == 2 end)
      remote.assert_waits(waiter)
      child:send "go on"
      remote.answer_of(child)
      local results = remote.answer_of(waiter)
      assert.equal(name == "failed" and "true" or "false", results[1])
    end
  end)

  it("waits until its period ends, unless the call or the client has a timeout", function()
    clients.keep(assert(other:lock "a"))
    local from = wait.now()
    local message = assert_fails("timeout", client:once("a", 2, never))
    assert.is_true(wait.now() - from < 2 + wait.SLACK)
    assert.matches('^lock "' .. A .. '" was not free within [%d.]+ s', message)
    assert_fails("timeout", client:once("a", LONG, { timeout = 0.3 }, never))
    assert_fails("timeout", connect { timeout = 0.3 }:once("a", LONG, never))
    assert_fails("timeout", connect { timeout = 0.3 }:once("a", "ever", never))
  end)

  it("takes the other options of a lock", function()
    assert.same({ true, "v", "me" }, { client:once("a", LONG, { value = "v", owner = "me" },
      function()
        local entry = client:queue "a"[1]
        return entry.value, entry.owner
      end) })
    assert_ran("lost", client:once("b", LONG, { max_hold = 0.1 }, function(lock)
      lock:wait_lost(5)
    end))
    assert.is_nil(record_of "b")
  end)

  it("uses the hold that its owner has already, also that of a multi-lock", function()
    assert.is_true(client:with_lock("a", function(outer)
      local _, same = client:once("a", LONG, function(lock) return lock == outer end)
      assert.is_true(same)
      assert.is_true(outer:held())
    end))
    local lock = assert(client:multi_lock { "b", "c" })
    assert.is_true(client:once("c", LONG, function() end))
    assert.is_true(lock:unlock())
    assert.is_table(record_of "c")
    assert.is_nil(record_of "b")
  end)

  it('returns "lost", true and the results if the lock was lost meanwhile', function()
    local message, result, nothing = assert_ran("lost", client:once("a", LONG, function(lock)
      etcd:del(lock:key())
      lock:wait_lost(5)
      return "a result", nil
    end))
    assert.matches('^lock "' .. A .. '" was lost: .*; the run is not recorded, and the next start '
      .. "repeats it$", message)
    assert.same({ "a result", nil }, { result, nothing })
    assert.is_nil(record_of "a")
  end)

  it('returns "lost" if only the write of the record finds the loss', function()
    assert_ran("lost", client:once("a", LONG, function(lock)
      assert.is_true(other:break_lock("a", lock:token()))
    end))
    assert.is_nil(record_of "a")
  end)

  it('returns "not_held" if the function unlocks the lock', function()
    local message = assert_ran("not_held", client:once("a", LONG, function(lock)
      assert.is_true(lock:unlock())
    end))
    assert.matches('^lock "' .. A .. '" is not held; the run is not recorded', message)
    assert.is_nil(record_of "a")
  end)

  -- What replaces the results of the first write of the record.
  for what, change in pairs {
    ["succeeds if the lock is lost after the run was recorded"] = function(ask, ...)
      local results = { ask(...) }
      etcd:revoke_all()
      return (table.unpack or unpack)(results, 1, 4)
    end,
    ["writes the record again if etcd has not answered"] = function()
      return false, "no answer", "unavailable"
    end,
    ["succeeds if only the answer to the write of the record was lost"] = function(ask, ...)
      ask(...)
      etcd:revoke_all()
      return false, "no answer", "unavailable"
    end,
  } do
    it(what, function()
      assert.same({ true, "result" }, { client:once("a", LONG, function()
        local ask = client._run_txn
        function client:_run_txn(...)
          client._run_txn = nil
          assert.equal(ask, client._run_txn)
          return change(ask, self, ...)
        end
        return "result"
      end) })
      assert_skipped(other:once("a", LONG, never))
    end)
  end

  it("says that it is not known whether the run is recorded, at once with fail_fast", function()
    local own = suite.start()
    local fast = connect { endpoints = own:endpoints(), fail_fast = true }
    local message, result = assert_ran("unavailable", fast:once("a", LONG, function()
      own:pause()
      return "result"
    end))
    own:resume()
    assert.equal("result", result)
    assert.matches('^lock "' .. A .. '": put "' .. A .. '.last%-run": .*; it is not '
      .. "known whether the run is recorded; if not, the next start repeats it$", message)
  end)

  it('returns "invalid" if the key is no record, or is more than one period ahead', function()
    etcd:put(key_of "a", "mine")
    local message = assert_fails("invalid", client:once("a", LONG, never))
    assert.equal(('lock "%sa": the key "%s" is not the record of a run; choose another name, or '
      .. "delete the key"):format(prefix, key_of "a"), message)
    record_run("a", -2 * DAY)
    assert.matches("more than one period ahead of this machine's clock; correct the clocks",
      assert_fails("invalid", client:once("a", DAY, never)))
    assert.same({}, client:queue "a")
  end)

  it("does not run the function if it did not acquire the lock", function()
    assert_fails("invalid", client:once("", LONG, never))
    client:close()
    assert_fails("closed", client:once("a", LONG, never))
  end)

  it("refuses a wrong period, name, option or function", function()
    local wanted = 'wanted a finite number of seconds, 1 or more, or "ever"'
    for _, period in ipairs { 0, -1, 0.5, math.huge, 0 / 0 } do
      assert.matches("^client:once: period = .*, " .. wanted .. "$",
        assert_fails("invalid", client:once("a", period, never)))
    end
    for _, period in ipairs { "1d", true } do
      assert.error_matches(function() client:once("a", period, never) end,
        "client:once: period = .*, " .. wanted .. "$")
    end
    for pattern, arguments in pairs {
      ["period = function: .*, " .. wanted] = { "a", never },
      ["name = 5, wanted a string"] = { 5, LONG, never },
      ["fn = nil, wanted a function"] = { "a", LONG },
      ["the function is the last argument; give the options before it"] = { "a", LONG, never, {} },
      ['unknown option "tineout"; did you mean timeout%?'] = { "a", LONG, { tineout = 1 }, never },
      ['options = "x", wanted a table such as { timeout = 5 }'] = { "a", LONG, "x", never },
    } do
      assert.error_matches(function()
        client:once((table.unpack or unpack)(arguments, 1, 4))
      end, "client:once: " .. pattern .. "$")
    end
    assert_fails("invalid", client:once("a", LONG, { timeout = -1 }, never))
  end)

  it("blocks only its coroutine in an event loop", function()
    if not pcall(require, "cqueues") then return pending "this Lua has no cqueues" end
    local loop, ran, skipped, turns = cqueues.new(), 0, 0, 0
    for _ = 1, 3 do
      loop:wrap(function()
        local has_run, message = client:once("a", LONG, function()
          local before = turns
          while turns < before + 3 do cqueues.sleep(0.001) end
        end)
        if has_run then ran = ran + 1 else skipped = skipped + 1 end
        assert(has_run ~= nil, message)
      end)
    end
    loop:wrap(function()
      while ran + skipped < 3 do
        turns = turns + 1
        cqueues.sleep(0.001)
      end
    end)
    assert(loop:loop())
    assert.same({ 1, 2 }, { ran, skipped })
  end)
end)

describe("client:runs", function()
  it("returns the last run of each job whose name begins with the prefix, by name", function()
    assert.same({}, client:runs())
    record_run("b", 60)
    record_run("a%2Fx", 5)
    record_run("a%25", 7)
    local names, now = {}, os.time()
    for i, run in ipairs(client:runs()) do names[i] = run.name end
    assert.same({ "a%", "a/x", "b" }, names)
    local run = client:runs("a/")[1]
    assert.is_true(run.started <= now - 5 and run.started > now - 15)
    assert.same({ "a/x", 3, 2.5, "web-9", 4711 },
      { run.name, run.ended - run.started, run.seconds, run.host, run.pid })
    assert.equal(1, #client:runs "a/")
    assert.same({}, client:runs "c")
  end)

  -- Regression 314. `etcdlock ls --runs` printed "No run is recorded" if the jobs belonged to
  -- clients with a prefix.
  it("returns also the runs of clients with a longer prefix", function()
    record_run("b", 60)
    record_run("a%2Fx", 5)
    local above = connect { prefix = "" }
    for _, below in ipairs { prefix, prefix .. "a/", prefix:sub(1, -2) } do
      local names, expected = {}, {}
      for _, name in ipairs { prefix .. "a/x", prefix .. "b" } do
        expected[#expected + 1] = name:find(below, 1, true) and name or nil
      end
      for i, run in ipairs(above:runs(below)) do names[i] = run.name end
      assert.same(expected, names)
    end
  end)

  it("returns the runs of more than one page of keys", function()
    local list = {}
    for i = 1, 1100 do list[i] = key_of(("n%04d"):format(i)) end
    local text = json.encode { started = os.time(), host = "web-9", pid = 1 }
    for i = 1, #list, 100 do
      assert(client:with_lock("writer", function(lock)
        local puts = {}
        for k = i, i + 99 do puts[#puts + 1] = { "put", list[k], text } end
        assert(lock:txn(puts))
      end))
    end
    local runs = client:runs "n"
    assert.same({ 1100, "n0001", "n1100" }, { #runs, runs[1].name, runs[1100].name })
  end)

  it("returns the start as the end of a run that etcdlock 0.2.0 has recorded", function()
    etcd:put(key_of "a", '{"started":1700000000,"host":"web-9","pid":1}')
    local started = 1700000000
    assert.same({ { name = "a", started = started, ended = started, host = "web-9", pid = 1 } },
      client:runs())
  end)

  it("leaves out keys that are no records, and fields that etcdlock has not written", function()
    for key, text in pairs {
      [".last-run"] = "{}", ["x.last-run"] = "{}", ["y"] = "z", ["a%41.last-run"] = "{}",
      ["a/%41.last-run"] = '{"started":1,"host":"a","pid":1}',
      ["%2f.last-run"] = '{"started":1,"host":"a","pid":1}',
      [".last-run.last-run.last"] = '{"started":1,"host":"a","pid":1}',
      ["long.last-run"] = ('{"started":1,"host":"%s","pid":1}'):format(("a"):rep(256)),
    } do
      etcd:put(prefix .. key, text)
    end
    assert.same({}, client:runs())
    etcd:put(key_of "b", '{"started":7,"ended":"x","seconds":-1,"host":"a","pid":1,"more":2}')
    assert.same({ { name = "b", started = 7, ended = 7, host = "a", pid = 1 } }, client:runs())
  end)

  it("fails with invalid for a prefix that is too long, and raises for a wrong type", function()
    assert.matches("^client:runs: prefix = ",
      assert_fails("invalid", client:runs(("x"):rep(600))))
    assert.error_matches(function() client:runs(5) end,
      "client:runs: prefix = 5, wanted a string$")
  end)
end)
