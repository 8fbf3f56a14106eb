-- Tests etcdlock run --once-per, which runs a command once in each period, and its record in etcd.

client_options { ttl = 10 }
local NAME = prefix .. "a"
local RECORD = NAME:gsub("/", "%%2F") .. ".last-run"
local HOUR, DAY = 3600, 86400
-- A period so long that none ends during a test.
local LONG = "--once-per=10000d"

after_each(function() etcd:del(RECORD) end)

local function run(options, script, env)
  return command.run({ "run", NAME, options, command.sh(script) }, env)
end

local function status_of(...) return (select(2, run(...))) end

-- Fails unless a run that would print "ran" prints nothing and exits with |status|. Returns its
-- errors.
local function assert_not_run(status, ...)
  local out, got, err = run(...)
  assert.same({ "", status }, { out, got }, err)
  return err
end

local function start(options, script, env)
  return command.start({ "run", NAME, options, command.sh(script) }, env)
end

-- Starts a command that keeps the lock until it gets a line.
local function start_holder()
  local holder = start({}, "echo ready; read line")
  holder:expect "^ready"
  return holder
end

-- Writes the record of a run that started |seconds| ago.
local function record_run(seconds)
  etcd:put(RECORD, json.encode { started = os.time() - seconds, host = "web-9", pid = 4711 })
end

-- Returns the variables with which the local time is between |hour| o'clock and one hour later.
local function at_local_hour(hour)
  local behind = (tonumber(os.date "!%H") - hour) % 24
  return { TZ = ("LOCAL%d"):format(behind > 12 and behind - 24 or behind) }
end

describe("etcdlock run --once-per", function()
  it("runs the command once in the period, and then exits with 75 and names the run", function()
    local before = os.time()
    local out, status, err = run({ LONG }, "echo ran")
    assert.same({ "ran\n", 0, "" }, { out, status, err })
    local record = json.decode((etcd:get(RECORD)))
    assert.equal(core.host(), record.host)
    assert.is_true(record.started >= before and record.started <= record.ended)
    assert.is_true(record.ended <= os.time() and record.seconds > 0)
    assert.matches('^etcdlock: lock ".*a": nothing to do in this period %(%-%-once%-per%): run by '
      .. "pid %d+ on .* at %d+%-%d%d%-%d%d %d%d:%d%d:%d%d\n$",
      assert_not_run(75, { LONG }, "echo ran"))
    assert.equal(9, status_of({ LONG, "-E", "9" }, "echo ran"))
    for _, option in ipairs { "-E0", "--quiet" } do
      local said, _, errors = run({ LONG, option }, "echo ran")
      assert.same({ "", "" }, { said, errors })
    end
    assert.same({}, etcd:keys(NAME .. "/"))
  end)

  it("runs the command once ever with the period `ever`", function()
    assert.equal(0, status_of({ "--once-per=ever" }, "exit 0"))
    record_run(10000 * DAY)
    assert.matches('^etcdlock: lock ".*a": nothing to do: run by pid 4711 on web%-9 at ',
      assert_not_run(75, { "--once-per", "ever" }, "echo ran"))
  end)

  it("runs the command again after a run that has failed", function()
    assert.equal(3, status_of({ LONG }, "exit 3"))
    assert.is_nil((etcd:get(RECORD)))
    assert.equal(128 + 9, status_of({ LONG }, "kill -9 $$"))
    assert.equal(0, status_of({ LONG }, "exit 0"))
    assert.equal(75, status_of({ LONG }, "exit 0"))
  end)

  it("runs the command on one of several machines that start it at once", function()
    local jobs, ran = {}, 0
    for i = 1, 4 do jobs[i] = start({ LONG }, "echo ran; sleep 0.2") end
    for _, job in ipairs(jobs) do
      local status = job:wait()
      assert.is_true(status == 0 or status == 75)
      if job.out.text == "ran\n" then ran = ran + 1 end
    end
    assert.equal(1, ran)
  end)

  it("runs the command of the next waiter if that of the holder fails", function()
    local first = start({ LONG }, "echo first; read line; exit 3")
    first:expect "^first"
    local second = start({ LONG }, "echo second")
    etcd:await_keys(NAME .. "/", 2)
    assert.equal(3, (first:go()))
    second:expect "^second"
    assert.equal(0, (second:wait()))
  end)

  it("runs the command in the next period, and records it", function()
    record_run(DAY)
    assert.equal(0, status_of({ "--once-per=1d" }, "exit 0"))
    assert.is_true(json.decode((etcd:get(RECORD))).started > os.time() - HOUR)
    record_run(HOUR)
    assert.equal(0, status_of({ "--once-per=1h" }, "exit 0"))
    record_run(30)
    assert.equal(0, status_of({ "--once-per=30" }, "exit 0"))
  end)

  it("counts days in local time", function()
    record_run(2 * HOUR)
    assert.equal(75, status_of({ "--once-per=1d" }, "exit 0", at_local_hour(12)))
    assert.equal(0, status_of({ "--once-per=1d" }, "exit 0", at_local_hour(0)))
  end)

  -- Regression 116. The example scheduled_job ran a job again if a late machine started it.
  it("leaves the record of a machine whose clock is one period ahead as it is", function()
    record_run(-DAY)
    local text = etcd:get(RECORD)
    assert_not_run(75, { "--once-per=1d" }, "echo ran")
    assert.equal(text, (etcd:get(RECORD)))
  end)

  it("exits with 1 and names the key if the record is more than one period ahead", function()
    record_run(-2 * DAY)
    local err = assert_not_run(1, { "--once-per=1d", "-E", "0" }, "echo ran")
    assert.matches('run by pid 4711 on web%-9 at .*, more than one period ahead of this machine\'s '
      .. 'clock; correct the clocks, or delete the key ".*a.last%-run"\n$', err)
  end)

  it("exits with 1 and names the key if that is no record", function()
    for _, text in ipairs {
      "", "x", "{}", '{"started":1e999,"host":"a","pid":1}', '{"started":-1,"host":"a","pid":1}',
      '{"started":"1","host":"a","pid":1}',
      -- Regression 127, described below.
      '{"started":4000000000,"host":"a","pid":1e308}', '{"started":4000000000,"host":"a","pid":-1}',
      ('{"started":4000000000,"host":"%s","pid":1}'):format(("a"):rep(256)),
    } do
      etcd:put(RECORD, text)
      assert.matches('the key ".*a.last%-run" is not the record of a run',
        assert_not_run(1, { LONG }, "echo ran"))
    end
  end)

  it("does not record a run that was not under the lock until its end", function()
    local job = start({ LONG }, "trap '' TERM; echo ready; read line; exit 0")
    job:expect "^ready"
    clients.take_away(client, "a")
    assert.equal(70, (job:go()))
    assert.is_nil((etcd:get(RECORD)))
  end)

  it("reports a run that cannot be recorded, and exits with 70", function()
    local job = start({ LONG, "--ttl=3" }, "echo ready; read line; exit 0")
    job:expect "^ready"
    etcd:pause()
    job:send "go"
    assert.equal(70, (job:wait(20)))
    assert.matches('^etcdlock: lock ".*a" was lost: [^\n]*; it is not known whether the run is '
      .. "recorded; if not, the next start repeats it\n$", job:errors())
    etcd:resume()
    etcd:revoke_all()
    etcd:await_keys(NAME .. "/", 0)
  end)

  -- Regression 248. The command had succeeded, its run was recorded, and the exit status was 70.
  -- Regression 309. With --quiet it printed the message about this loss, which is no error.
  it("exits with 0 if a run is recorded, and the lock is lost after it", function()
    for option, message in pairs {
      ["--at-least=0"] = '^etcdlock: lock ".*a" was lost: .*, after the command had ended; its run '
        .. "is recorded\n$",
      ["--quiet"] = "^$",
    } do
      local job = start({ LONG, option, "--endpoints", server.address }, "echo ready; read line")
      job:expect "^ready"
      server:answer("Txn", "after", error_rows.STATUS.UNAVAILABLE, "etcdserver: request timed out")
      job:send "go"
      wait.eventually(function() return etcd:get(RECORD) end, 5, "the record")
      etcd:revoke_all() -- so that the hold is lost
      server:pass()
      assert.equal(0, (job:wait(20)))
      assert.matches(message, job:errors())
      assert.equal(75, status_of({ LONG }, "echo ran"))
      etcd:del(RECORD)
    end
  end)

  -- Regression 265. If etcd's database was full when the command had succeeded, etcdlock repeated
  -- the write of the record without a pause and without an end.
  it("gives up if etcd's database is full when the command has succeeded", function()
    local own = suite.start { args = { "--quota-backend-bytes", "2000000" } }
    local filler = connect { endpoints = own:endpoints() }
    local env = suite.variables()
    env.ETCDCTL_ENDPOINTS = own:endpoints()
    local job = start({ LONG, "--ttl=3" }, "echo ready; read line", env)
    job:expect "^ready"
    assert(filler:with_lock("filler", function(lock)
      wait.eventually(function()
        local _, why = lock:put(prefix .. "filler", ("v"):rep(600000))
        return why and why:find("database space exceeded", 1, true)
      end, 20, "full")
    end))
    job:send "go"
    local status = job:wait(20)
    -- If its database is full, etcd may apply a write that it refuses.
    if own:get(RECORD) then return assert.equal(0, status, job:errors()) end
    assert.equal(69, status)
    assert.matches("database space exceeded.*; it is not known whether the run is recorded; if "
      .. "not, the next start repeats it\n$", job:errors())
  end)

  it("keeps the record where no lock of another client has its queue", function()
    local names = { "a/b", "a%b" }
    for _, name in ipairs(names) do
      assert.equal(0, command.status { "run", "--prefix", prefix, LONG, name, "--", "true" })
    end
    local keys = { prefix .. "a%25b.last-run", prefix .. "a%2Fb.last-run" }
    assert.same(keys, etcd:keys(prefix))
    for _, key in ipairs(keys) do etcd:del(key) end
  end)

  it("names the record's key if etcd refuses to read or write it", function()
    local own = secured.start(NAME .. "/", { tls = false })
    local env = { ETCDCTL_ENDPOINTS = own:endpoint(), ETCDCTL_USER = "locker:" .. secured.PASSWORD }
    local function assert_refused(wanted_out)
      local out, status, err = run({ LONG }, "echo ran", env)
      assert.same({ wanted_out, 77 }, { out, status })
      assert.matches('lock "' .. NAME:gsub("%p", "%%%0") .. '": %l+ ".*a%.last%-run": .*permission '
        .. "denied.*; grant .*, the record of the last run", err)
      return err
    end
    assert_refused ""
    secured.ctl(own, "role", "grant-permission", "locks", "read", RECORD)
    local err = assert_refused "ran\n"
    assert.matches("; the run is not recorded, and the next start repeats it\n$", err)
  end)

end)

-- Regression 127. etcdlock run --once-per compared the time of a recorded run with its own start,
-- not with the current time. In a wait of more than two periods, for example in an outage, another
-- machine could run the command. etcdlock then reported a wrong clock, with exit status 1. Besides,
-- a record could contain a process ID or a host name of any length, which the message repeated.
describe("etcdlock run --once-per", function()
  it("has nothing to do if another machine has run the command periods later", function()
    local holder = start_holder()
    local waiter = command.start { "run", NAME, "--once-per=1", "--timeout=60", "echo",
      "ran" }
    etcd:await_keys(NAME .. "/", 2)
    local started = os.time()
    wait.eventually(function() return os.time() >= started + 3 end)
    etcd:put(RECORD, json.encode { started = os.time(), host = "web-9", pid = 4711 })
    holder:send "go"
    assert.equal(75, (waiter:wait()))
    assert.equal("", waiter.out.text)
    assert.matches("nothing to do in this period", waiter:errors())
    assert.equal(0, (holder:wait()))
  end)
end)

-- Regression 143. etcdlock run --once-per gave up after 5 s if etcd was away at the start. Then no
-- machine ran the command in that period. A start that waited longer than its period ran the
-- command in the next one, a second time.
describe("etcdlock run --once-per", function()
  it("waits for an etcd that is away at its start", function()
    local own = Etcd.start()
    own:pause()
    local job = command.start { "run", NAME, LONG, "--endpoints=" .. own:endpoint(), "echo", "ran" }
    local from = wait.now()
    wait.eventually(function() return wait.now() > from + 6 end, 10)
    own:resume()
    assert.equal(0, (job:wait()))
    assert.equal("ran\n", job.out.text)
  end)

  it("waits until its period ends, and no longer", function()
    local holder = start_holder()
    local out, status, err = command.run { "run", NAME, "--once-per=2", "echo", "ran" }
    assert.same({ "", 75 }, { out, status })
    assert.matches("was not free within [%d.]+ s", err)
    assert.equal(0, (holder:go()))
  end)
end)
