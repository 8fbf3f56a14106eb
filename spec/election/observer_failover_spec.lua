-- Tests observers of elections while etcd members restart, pause, stop or lose their data.
-- Needs: one plain member.

local etcd
client_options(function() return { endpoints = etcd:endpoints(), prefix = prefix, ttl = 15 } end)

local granted = clients.granted

local function observe(changes)
  local client = connect(changes)
  return assert(client:election "boss"):observe(), client
end

describe("an observer in a cluster", function()
  it("reports each new leader, and none again, over restarts and compactions", function()
    etcd = suite.start { members = 3 }
    local observer = observe()
    local election = assert(connect():election "boss")
    local lock, token = assert(election:campaign("0", { timeout = 20 })), 0
    for i = 1, 3 do
      local value, _, since = observer:next(30)
      assert.equal(tostring(i - 1), value)
      assert.is_true(since > token)
      token = since
      etcd:restart(i)
      etcd:ctl("compact", ("%d"):format(etcd:revision()))
      local asked = assert(election:campaign_async(tostring(i), { owner = i, timeout = 30 }))
      lock:resign()
      lock = granted(asked)
    end
    assert.equal("3", (observer:next(30)))
    clients.assert_unchanged(observer, 0.5)
    assert.is_true(lock:resign())
  end)

  it("always knows the leader while one member after the other is killed", function()
    etcd = suite.start { members = 3 }
    local ttl = wait.ttl(5)
    local observer, client = observe { ttl = ttl }
    clients.keep(assert(connect():election "boss":campaign("1", { timeout = 20 })))
    assert.equal("1", (observer:next(30)))
    for i = 1, 3 do
      etcd:kill(i)
      for _ = 1, 2 do
        local value, message, code = observer:next(ttl / 2)
        assert.is_nil(value, "it reports that the leader is unknown")
        assert.is_true(code == "timeout" or code == "unavailable", message)
      end
      etcd:restart(i)
      wait.eventually(function() return client:ping() end, 20, "a majority")
    end
  end)

  it("ends with the newest leader and reports no older one if its member restarts", function()
    etcd = suite.start { members = 3 }
    local election = assert(connect():election "boss")
    local lock = assert(election:campaign("0", { timeout = 20 }))
    local observer = observe { endpoints = etcd:endpoint(1) .. "," .. etcd:endpoint(2) }
    assert.equal("0", (observer:next(30)))
    local last, token = 0, lock:token()
    -- Reads what the observer reports within |seconds|. Fails if that is older than the last
    -- report. The values are numbers that grow.
    local function read(seconds)
      local value, _, since = observer:next(seconds)
      if value then
        assert.is_true(tonumber(value) > last and since >= token, value .. " after " .. last)
        last, token = tonumber(value), since
      end
      assert.is_not_false(value)
    end
    for i = 1, 20 do
      if i == 5 then etcd:kill(1) end
      if i == 12 then etcd:restart(1) end
      local asked = assert(election:campaign_async(tostring(10 * i), { owner = i, timeout = 30 }))
      wait.eventually(function() return #etcd:keys(prefix) == 2 end, 20, "the next candidate")
      assert.is_true(lock:resign())
      lock = granted(asked)
      wait.eventually(function() return lock:proclaim(tostring(10 * i + 1)) end, 20, "a value")
      read(0)
    end
    wait.eventually(function()
      read(0.2)
      return last == 201
    end, 30, "the newest leader")
    assert.is_true(lock:resign())
    assert.is_false(observer:next(30))
  end)
end)

describe("an observer of one member", function()
  before_each(function() etcd = suite.start { members = 1 } end)

  it("continues after the member was paused", function()
    local observer = observe()
    local lock = assert(connect():election "boss":campaign "1")
    assert.equal("1", (observer:next(10)))
    etcd:pause()
    local _, _, code = observer:next(1)
    assert.is_true(code == "timeout" or code == "unavailable", code)
    etcd:resume()
    wait.eventually(function() return lock:proclaim "2" end, 20, "proclaimed")
    assert.equal("2", (observer:next(30)))
  end)

  it('with fail_fast fails with "unavailable" in an outage and continues after it', function()
    local observer, client = observe { fail_fast = true }
    local lock = assert(client:election "boss":campaign "1")
    assert.equal("1", (observer:next(10)))
    etcd:kill()
    local from = wait.now()
    assert_fails("unavailable", observer:next())
    assert.is_true(wait.now() - from < 5 + wait.SLACK)
    assert_fails("unavailable", observer:next())
    local ok, failure = pcall(function() for _ in observer do error "told" end end)
    assert.is_false(ok)
    assert.matches("observer_failover_spec.lua:%d+: .*etcd 127", failure)
    etcd:restart()
    wait.eventually(function() return client:ping() end, 20, "etcd is back")
    if lock:held() then
      assert.is_true(lock:proclaim "2")
    else
      clients.keep(assert(client:election "boss":campaign "2"))
    end
    wait.eventually(function() return observer:next(1) == "2" end, 20, "the second")
  end)

  it("reports the current leader and later ones if older revisions are compacted", function()
    local observer, client = observe()
    assert.is_true(observer._watcher:wait_changed(5))
    local lock = assert(client:election "boss":campaign "1")
    assert.is_true(lock:proclaim "2")
    etcd:ctl("compact", ("%d"):format(etcd:revision()))
    assert.equal("2", (observer:next(10)))
    assert.is_true(lock:proclaim "3")
    assert.equal("3", (observer:next(10)))
    assert.is_true(lock:resign())
  end)

  it('fails with "conflict" after the member was wiped', function()
    local observer = observe()
    local lock = assert(connect():election "boss":campaign "1")
    assert.equal("1", (observer:next(10)))
    assert.is_true(lock:resign())
    assert.is_false(observer:next(10))
    etcd:wipe(true)
    local message = assert_fails("conflict", observer:next(30))
    assert.matches("cluster", message)
  end)
end)

describe("an observer without permission", function()
  it('fails with "denied", and its for loop raises an error', function()
    etcd = secured.start(prefix)
    local client = clients.connector(function() return secured.options(etcd, "elsewhere/") end)()
    assert_fails("denied", client:election "boss":observe():next(10))
    assert.matches("permission denied", (select(2, pcall(function()
      for _ in client:election "boss":observe() do error "told" end
    end))))
    assert_fails("denied", client:election "boss":leader())
  end)
end)
