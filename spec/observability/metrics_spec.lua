-- Tests that the page of client:metrics is valid for Prometheus, and that its figures are true.

client_options { ttl = 60 }

local function page_of(client, labels)
  return exposition.read(assert(client:metrics { labels = labels }))
end

-- Returns the bucket counts of the histogram |name| with the lock label |label|, the smallest
-- bucket first; checks that they are cumulative.
local function buckets(page, name, label)
  local counts = page:values(name, name .. "_bucket", { lock = label })
  for i = 2, #counts do assert.is_true(counts[i] >= counts[i - 1]) end
  assert.equal(page:value(name .. "_count", { lock = label }), counts[#counts])
  return counts
end

describe("the metrics of a client", function()
  it("have the values of stats, and the right types", function()
    for _ = 1, 3 do assert(client:lock "a"):unlock() end
    local lock = assert(client:lock "b")
    local stats, text
    -- Repeats until the counters do not change between the two calls.
    wait.eventually(function()
      stats, text = client:stats(), client:metrics()
      return pcall(assert.same, stats, client:stats())
    end)
    local page = exposition.read(text)
    for field, name in pairs {
      acquired = "acquisitions", lost = "lost_locks", leaked = "leaked_locks",
      failed_attempts = "request_failures",
    } do
      assert.equal("counter", page.families["etcdlock_" .. name].type)
      assert.equal(stats[field], page:value("etcdlock_" .. name .. "_total"))
    end
    assert.equal(stats.rpcs, page:value "etcdlock_round_trips_total")
    assert.equal(stats.batched, page:value "etcdlock_batched_requests_total")
    assert.equal(stats.enqueues, page:value("etcdlock_requests_total", { kind = "enqueues" }))
    local sum = 0
    for _, value in ipairs(page:values("etcdlock_requests", "etcdlock_requests_total")) do
      sum = sum + value
    end
    assert.equal(stats.rpcs + stats.batched, sum)
    assert.same({ "gauge", 1 },
      { page.families.etcdlock_held_locks.type, page:value "etcdlock_held_locks" })
    assert.equal(0, page:value "etcdlock_waiters")
    local left = page:value "etcdlock_session_remaining_seconds"
    assert.is_true(left > 0 and left <= 60, left)
    for name, family in pairs(page.families) do assert.matches("^%u.*%.$", family.help, name) end
    lock:unlock()
    client:close()
    assert.equal(4, page_of(client):value "etcdlock_acquisitions_total")
  end)

  it("contain histograms of the wait and hold times of locks", function()
    local other = assert(connect { elsewhere = true }:lock "a")
    local client = connect { metrics = true, log = function(event)
      if event.event == "waiting" then -- reported after 0.1 s
        wait.sleep(0.1)
        assert(other:unlock())
      end
    end }
    local from = wait.now()
    local lock = assert(client:lock "a")
    assert(client:lock "a" == lock and lock:unlock()) -- reentrant: not counted
    wait.sleep(0.1)
    lock:unlock()
    local took, page = wait.now() - from, page_of(client)
    assert.equal("histogram", page.families.etcdlock_wait_seconds.type)
    local function value(name, le)
      return page:value(("etcdlock_%s_seconds_%s"):format(name, le and "bucket" or "sum"),
        { lock = prefix .. "*", le = le })
    end
    assert.equal(1, page:value("etcdlock_wait_seconds_count", { lock = prefix .. "*" }))
    local waited, held = value "wait", value "hold"
    -- The two times overlap: the hold begins with the grant, and the wait ends when the client
    -- learns of the grant.
    assert.is_true(waited >= 0.2 and waited <= took, waited)
    assert.is_true(held >= 0.1 and held <= took, held)
    assert.equal(0, buckets(page, "etcdlock_wait_seconds", prefix .. "*")[1])
    assert.same({ 0, 0, 1 }, { value("wait", "0.1"), value("hold", "0.05"), value("hold", "+Inf") })
  end)

  it("count each hold that is unlocked, lost, garbage-collected or closed", function()
    local client, other = connect { metrics = true, log = function() end }, connect()
    assert(client:lock "a"):unlock()
    assert(client:lock("a", { linger = 5 })):unlock()
    local lock = assert(client:lock "b")
    assert(other:break_lock("b", lock:token()))
    wait.eventually(function() return not lock:held() end)
    assert(client:lock "dropped")
    lock = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    local page = page_of(client)
    assert.equal(4, page:value "etcdlock_hold_seconds_count")
    assert.equal(4, page:value "etcdlock_wait_seconds_count")
    assert.equal(4, page:value "etcdlock_acquisitions_total")
    assert.equal(1, page:value "etcdlock_lost_locks_total")
    assert.equal(1, page:value "etcdlock_leaked_locks_total")
    clients.keep(assert(client:lock "c"))
    client:close()
    page = page_of(client)
    assert.equal(5, page:value "etcdlock_hold_seconds_count")
    assert.equal(1, page:value "etcdlock_lost_locks_total") -- a closed client has lost nothing
    assert.equal(1, client:stats().lost)
  end)

  -- Regression 288. The counters of lost and leaked locks had no label `lock`.
  it("tell the labels of lost and leaked locks, also of more than the client keeps", function()
    -- With a log function, leaked locks are kept until the next call.
    local client = connect { metrics = { "kept", "lost*" }, log = function() end }
    local function ends(label)
      local page = page_of(client)
      label = label == "other" and label or prefix .. label
      return {
        page:value("etcdlock_lost_locks_total", { lock = label }),
        page:value("etcdlock_leaked_locks_total", { lock = label }),
      }
    end
    clients.keep(assert(client:lock "kept"))
    local lock = assert(client:lock "lost/1")
    assert.same({ 0, 0 }, ends "lost*")
    assert(other:break_lock("lost/1", lock:token()))
    wait.eventually(function() return not lock:held() end)
    assert.same({ 1, 0 }, ends "lost*")
    local asked = {}
    for i = 1, 200 do asked[i] = assert(client:lock_async("lost/leak" .. i, { owner = i })) end
    for i = 1, 200 do asked[i] = clients.granted(asked[i]) end
    asked = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.same({ 0, 0 }, ends "kept")
    local leaked = client:stats().leaked -- LuaJIT may keep one handle
    assert.is_true(leaked >= 199)
    -- The client has kept 128 of these events. The locks of the others are unknown.
    assert.equal(leaked, ends "lost*"[2] + ends "other"[2])
    assert.equal(1, ends "lost*"[1] + ends "other"[1])
  end)

  -- Regression 289. No metric told whether a process leads, or knows a leader.
  it("tell which elections the client leads, and whether its observers know a leader", function()
    local client = connect { metrics = { "a", "b", "c" } }
    local function figure(name, label)
      return page_of(client):values(name, name, { lock = prefix .. label })[1]
    end
    local function leads(label) return figure("etcdlock_leaderships", label) end
    local function is_known(label) return figure("etcdlock_leader_known", label) end
    assert(client:lock "c"):unlock()
    local leader = assert(client:election "a":campaign "me")
    local rival = assert(other:election "b":campaign "other")
    local candidate = assert(client:election "b":campaign_async "me")
    clients.assert_wait(candidate)
    assert.same({ 1, 0 }, { leads "a", leads "b" })
    assert.is_nil(leads "c" or is_known "a") -- neither elected nor observed
    local observer = (client:election "b":observe())
    assert.equal(0, is_known "b")
    assert.equal("other", (observer:next(10)))
    assert.equal(1, is_known "b")
    local idle = (client:election "b":observe()) -- it has read no leader yet
    assert.equal(0, is_known "b")
    idle:close()
    assert.equal(1, is_known "b")
    assert(rival:resign())
    local mine = clients.granted(candidate)
    assert.same({ 1, 1 }, { leads "a", leads "b" })
    assert(mine:resign() and leader:resign())
    assert.same({ 0, 0 }, { leads "a", leads "b" })
    wait.eventually(function() return observer:next(10) == false end)
    assert.equal(0, is_known "b")
    observer:close()
    assert.is_nil(is_known "b")
  end)

  it("are 0 for a known leader while etcd does not answer the observer", function()
    scripted_client { metrics = true }
    clients.keep(assert(other:election "a":campaign "other"))
    local observer = (client:election "a":observe())
    assert.equal("other", (observer:next(10)))
    local function is_known()
      return page_of(client):value("etcdlock_leader_known", { lock = prefix .. "*" })
    end
    assert.equal(1, is_known())
    server:answer("Txn", "before", error_rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
    observer._read_at = 0 -- now, and not after 10 s
    assert_fails("unavailable", observer:next(1))
    assert.equal(0, is_known())
    server:pass()
  end)

  -- Regression 290. No metric showed a guarded write that failed.
  it("count guarded writes that failed, by label and code", function()
    local client = connect { metrics = { "a", "leader" } }
    local lock = assert(client:lock "a")
    local leader = assert(client:election "leader":campaign "me")
    assert(lock:put("metrics/a", "1") and lock:get "metrics/a" and lock:delete "metrics/a")
    assert(leader:proclaim "new")
    assert.same({}, page_of(client):values("etcdlock_guarded_write_failures",
      "etcdlock_guarded_write_failures_total"))
    assert(other:break_lock("a", lock:token()))
    assert(leader:resign())
    assert_fails("lost", lock:put("metrics/a", "1"))
    assert_fails("lost", lock:delete "metrics/a")
    assert_fails("lost", lock:txn { { "put", "metrics/a", "1" } })
    assert_fails("lost", lock:get "metrics/a") -- a read
    assert_fails("not_held", leader:proclaim "newer")
    local page = page_of(client)
    local function count(label, code)
      return page:value("etcdlock_guarded_write_failures_total",
        { lock = prefix .. label, code = code })
    end
    assert.same({ 3, 1 }, { count("a", "lost"), count("leader", "not_held") })
  end)

  it("tell the TTL, and the versions of etcdlock and Lua", function()
    local one, two = connect { ttl = 60 }, connect { ttl = 5 }
    local jit = rawget(_G, "jit")
    local info = { version = etcdlock._VERSION, lua = jit and jit.version or _VERSION }
    local page = page_of(one, { client = "one", version = "of the program" })
    assert.equal(60, page:value "etcdlock_session_ttl_seconds")
    assert.equal(1, page:value("etcdlock_build_info", info))
    local joined = exposition.read(etcdlock.join_metrics { one:metrics(), two:metrics() })
    assert.equal(5, joined:value "etcdlock_session_ttl_seconds")
    assert.equal(1, joined:value("etcdlock_build_info", info))
  end)

  it("count failed lock calls by their code", function()
    local client, other = connect { metrics = { "a*" } }, connect { elsewhere = true }
    local held = assert(other:lock "ab")
    assert(client:lock "b"):unlock() -- connects to etcd before the timed calls
    assert.is_nil((client:lock("ab", { timeout = 1 })))
    for _ = 1, 2 do assert.is_nil((client:try_lock "ab")) end
    local page = page_of(client)
    local function count(code)
      return page:value("etcdlock_acquire_failures_total", { lock = prefix .. "a*", code = code })
    end
    assert.same({ 1, 2 }, { count "timeout", count "locked" })
    held:unlock()
  end)

  -- Regression 270: a label had no prefix, so it was no beginning of the names that ls shows.
  it('label a lock with prefix and first pattern that matches its name, or "other"', function()
    local client = connect { metrics = { "stock/*", "*/hot", "a.b", "%d*" } }
    for _, name in ipairs { "stock/1", "stock/hot", "very/hot", "a.b", "axb", "1", "%d1" } do
      assert(client:lock(name)):unlock()
    end
    assert(client:multi_lock { "very/hot", "stock/1" }):unlock()
    local page, counts = page_of(client), {}
    for _, sample in ipairs(page.families.etcdlock_wait_seconds.samples) do
      if sample[1] == "etcdlock_wait_seconds_count" then counts[sample[2].lock] = sample[3] end
    end
    assert.same({
      [prefix .. "stock/*"] = 2, [prefix .. "*/hot"] = 2, [prefix .. "a.b"] = 1, other = 2,
      [prefix .. "%d*"] = 1,
    }, counts)
  end)

  it("take labels from a function, at most 100 different ones", function()
    local client = connect { metrics = function(name, mode)
      if name == "raises" then error "oops" end
      if name == "nothing" then return nil end
      if name == "long" then return ("x"):rep(200) end
      return name:sub(1, 40) .. " " .. mode
    end }
    local odd = 'q"b\\n\nü\255'
    for _, name in ipairs { "raises", "nothing", "long", odd } do
      assert(client:lock(name)):unlock()
    end
    local page = page_of(client)
    assert.equal(3, page:value("etcdlock_wait_seconds_count", { lock = "other" }))
    assert.equal(1, page:value("etcdlock_wait_seconds_count",
      { lock = prefix .. 'q"b\\n\nü\\xFF lock' }))
    for i = 1, 150 do assert(client:lock("name/" .. i)):unlock() end
    page = page_of(client)
    assert.equal(101, #page:values("etcdlock_wait_seconds", "etcdlock_wait_seconds_count"))
    assert.equal(154, page:value "etcdlock_acquisitions_total")
    assert.is_true(page:value("etcdlock_wait_seconds_count", { lock = "other" }) >= 50)
  end)

  -- Regression 292. Control characters of a label reached the terminal of a reader.
  it("show control characters of labels as text", function()
    local client = connect { metrics = function(name) return name end }
    assert(client:lock "\27[2J\7\127\194\155\t"):unlock()
    local text = client:metrics { labels = { service = "a\0b" } }
    assert.is_nil(text:find "[%z\1-\9\11-\31\127]")
    local page = exposition.read(text)
    assert.equal(1, page:value("etcdlock_wait_seconds_count",
      { lock = prefix .. "\\x1B[2J\\x07\\x7F\\xC2\\x9B\\x09", service = "a\\x00b" }))
  end)

  it("carry the given labels on each sample, escaped; invalid label names are errors", function()
    local value = 'a"b\\c\nd'
    local client = connect { metrics = true }
    assert(client:lock "a"):unlock()
    local page = page_of(client, { worker = value, number = 7 })
    for name, family in pairs(page.families) do
      for _, sample in ipairs(family.samples) do
        assert.same({ value, "7" }, { sample[2].worker, sample[2].number }, name)
      end
    end
    -- Invalid UTF-8 is escaped. Here it is a surrogate, an overlong form, and a code point above
    -- U+10FFFF.
    page = page_of(client, {
      worker = "\237\160\128 \224\128\128 \244\144\128\128 \240\159\152\128",
    })
    assert.equal(1, page:value("etcdlock_acquisitions_total", {
      worker = "\\xED\\xA0\\x80 \\xE0\\x80\\x80 \\xF4\\x90\\x80\\x80 \240\159\152\128",
    }))
    for _, wrong in ipairs { "le", "lock", "__name__", "a-b", "1a", "" } do
      assert.has_error(function() client:metrics { labels = { [wrong] = "x" } } end,
        ("client:metrics: labels: %q is reserved or not a valid label name;"
          .. " choose another one of letters, digits and _"):format(wrong))
    end
    assert.has_error(function() client:metrics { labels = { a = {} } } end)
    assert.has_error(function() client:metrics { label = {} } end,
      'client:metrics: unknown option "label"; did you mean labels?')
  end)

  -- Regression 171. No metric showed a hold or a wait before its end, so an alert about a hanging
  -- lock was silent while any other call of the process succeeded.
  it("contain the ages of the oldest present hold and wait, except of elections", function()
    local client = connect { metrics = { "a", "b", "leader" } }
    local function ages(label)
      local page = page_of(client)
      return page:value("etcdlock_oldest_hold_seconds", { lock = prefix .. label }),
        page:value("etcdlock_oldest_wait_seconds", { lock = prefix .. label })
    end
    local from, lock = wait.now(), assert(client:lock "a")
    local waiting = assert(client:lock_async("a", { owner = "second" }))
    clients.keep(assert(client:election "leader":campaign "me"))
    wait.eventually(function() return (select(2, ages "a")) > 0.1 end, 5, "a wait of 0.1 s")
    assert(client:lock "b"):unlock()
    clients.keep(assert(client:read_lock "b"))
    local hold, waited = ages "a"
    local least = select(2, ages "b")
    assert.is_true(hold > waited and waited > 0.1 and hold < wait.now() - from, hold)
    assert.equal(0, least)
    wait.eventually(function() return (ages "b") > 0 end, 5, "an age of the reader")
    assert.is_true((ages "b") < (ages "a"))
    assert.same({ 0, 0 }, { ages "leader" })
    assert(lock:unlock())
    clients.granted(waiting):unlock()
    assert.same({ 0, 0 }, { ages "a" })
  end)

  it("do not count a wait that was cancelled, or that failed", function()
    local client, other = connect { metrics = true }, connect { elsewhere = true }
    clients.keep(assert(other:lock "a"))
    assert(client:lock_async "a"):cancel()
    assert_fails("timeout", client:lock("a", { timeout = 0.1 }))
    assert.equal(0, page_of(client):value "etcdlock_oldest_wait_seconds")
  end)

  it("of several clients join into one page; samples with equal labels are added up", function()
    local one, two = connect { metrics = true }, connect { metrics = { "a", "b" } }
    assert(one:lock "a"):unlock()
    for _ = 1, 2 do assert(two:lock "b"):unlock() end
    local apart = exposition.read(etcdlock.join_metrics {
      one:metrics { labels = { client = "1" } }, two:metrics { labels = { client = "2" } },
    })
    assert.equal(1, apart:value("etcdlock_acquisitions_total", { client = "1" }))
    assert.equal(2,
      apart:value("etcdlock_wait_seconds_count", { client = "2", lock = prefix .. "b" }))
    -- Regression 205. A client without a session made the joined remaining time 0, so the alert
    -- about a lease that is not renewed rang for the locks of another client.
    local idle = connect {}
    local sum = exposition.read(etcdlock.join_metrics {
      idle:metrics(), one:metrics(), two:metrics(), idle:metrics(),
    })
    assert.equal(3, sum:value "etcdlock_acquisitions_total")
    local ends = sum:value "etcdlock_session_remaining_seconds" -- the TTL is 60 s
    assert.is_true(ends > 0 and ends <= 60, ends)
    assert.equal("", etcdlock.join_metrics {})
    assert.has_error(function() etcdlock.join_metrics(one:metrics()) end)
    assert.has_error(function() etcdlock.join_metrics { 1 } end,
      "etcdlock.join_metrics: texts[1] = 1, wanted a string")
  end)

  it("are those of doc/observability.md and the dashboard, and the alerts use no other", function()
    local client, known = connect { metrics = true }, {}
    local text = assert(read_file "doc/observability.md")
    local alerts = assert(read_file "examples/prometheus/alerts.yml")
    local dashboard = assert(read_file "examples/prometheus/dashboard.json")
    for name in assert(client:metrics()):gmatch "# HELP (%S+)" do
      assert.is_truthy(text:find("`" .. name .. "`", 1, true), name)
      assert.is_truthy(dashboard:find(name, 1, true), name)
      known[name] = true
    end
    for name in (text .. alerts .. dashboard):gmatch "etcdlock_[%l_]+" do
      assert.is_true(known[name:gsub("_bucket$", ""):gsub("_count$", "")], name)
    end
  end)

  it("reject a wrong option type, an empty pattern and more than 100 patterns", function()
    assert.has_error(function() etcdlock.connect { metrics = 1 } end,
      "etcdlock.connect: metrics = 1, wanted true, a list of patterns or a function")
    assert.has_error(function() etcdlock.connect { metrics = { 1 } } end,
      "etcdlock.connect: metrics[1] = 1, wanted a string")
    assert.has_error(function() etcdlock.connect { metrics = { ["a*"] = true } } end,
      "etcdlock.connect: metrics[1] = nil, wanted a string")
    assert_fails("invalid", etcdlock.connect { metrics = { "a", "" } })
    local many = {}
    for i = 1, 101 do many[i] = "a" .. i end
    assert_fails("invalid", etcdlock.connect { metrics = many })
  end)
end)
