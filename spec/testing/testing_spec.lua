-- Tests what etcdlock.testing offers to the tests of users, except each_failure: a private etcd,
-- other processes, waits, losses, outages, and single failures.
-- Needs: one plain member.

local testing = require "etcdlock.testing"

local client, other

setup(function() assert(testing.start()) end)
teardown(testing.stop)

before_each(function()
  client = assert(etcdlock.connect { prefix = "shop/", ttl = 60 })
  other = assert(testing.connect { prefix = "shop/", ttl = 60 })
  assert(client:ping() and other:ping()) -- connected: timeouts below do not have to cover that
end)

after_each(function()
  client:close()
  other:close()
end)

local function read(key)
  return select(2, assert(other:with_lock("test", function(lock) return lock:get(key) end)))
end

describe("testing.start", function()
  -- Starts a process that prints the address of its private etcd.
  local function start_child()
    local child = proc.lua [[
      local testing = require "etcdlock.testing"
      print(testing.start())
      assert(require("etcdlock").with_lock("a", function() end))
      assert(testing.start() == testing.start())
      print "done"
      io.read()]]
    local directory = child:expect "^unix:(/.*)/localhost:1$"
    child:expect "^done$"
    return child, directory, tonumber((io.open(directory .. "/pid"):read "*l"))
  end

  for how, is_killed in pairs { ends = false, ["is killed"] = true } do
    it("starts one etcd, which ends if the process " .. how, function()
      local child, directory, pid = start_child()
      assert.equal(0, uv.kill(pid, 0))
      if is_killed then child:kill() end
      child:wait()
      wait.eventually(function() return not uv.fs_stat(directory) end, 5, "no directory")
      wait.eventually(function() return not uv.kill(pid, 0) end, 5, "no etcd")
    end)
  end

  it("uses the given etcd, with the other options as defaults of connect", function()
    assert.equal(suite.endpoint(), testing.start { endpoints = suite.endpoint(), ttl = 77 })
    local given = assert(etcdlock.connect { prefix = suite.prefix() })
    local lock = assert(given:lock "a")
    assert.equal(1, #suite.etcd():keys(suite.prefix() .. "a/"))
    assert.is_true(lock:remaining() > 60)
    given:close()
    testing.start()
  end)

  it("says that there is no etcd", function()
    local child = proc.lua [[
      require("luv").os_setenv("PATH", "/nowhere")
      local testing = require "etcdlock.testing"
      print(testing.connect())
      print(pcall(testing.pause))]]
    child:expect "^nil\ttesting.start: no etcd in PATH; .*\tunavailable$"
    child:expect "^false\t.*testing.pause: there is no private etcd"
    child:wait()
  end)
end)

describe("a client of testing.connect", function()
  it("is another process: the program gets a timeout, and no deadlock", function()
    local lock = assert(other:lock "a")
    assert_fails("timeout", client:lock("a", { timeout = 0.3 }))
    assert(lock:unlock())
    local permit = assert(assert(other:semaphore("s", 1)):lock())
    assert_fails("timeout", assert(client:semaphore("s", 1)):lock { timeout = 0.3 })
    assert(permit:unlock())
    lock = assert(client:lock "a")
    assert_fails("timeout", other:lock("a", { timeout = 0.3 }))
    assert_fails("deadlock", client:lock("a", { owner = 1 }))
    assert(lock:unlock())
  end)

  it("queues behind the program, and gets the lock after it", function()
    local lock = assert(client:lock "a")
    local waiter = assert(other:lock_async "a")
    assert(testing.eventually(function() return #client:queue "a" == 2 end))
    assert(lock:unlock())
    local later = assert(testing.eventually(function() return waiter:step() end))
    assert.is_true(later:token() > lock:token())
  end)

  it("breaks a lock of the program", function()
    local lock = assert(client:lock "a")
    assert(other:break_lock("a", lock:token()))
    assert.equal("deleted", lock:wait_lost(5))
  end)
end)

describe("testing.eventually", function()
  it("keeps its limit while etcd stands still", function()
    local from = core.now()
    testing.pause()
    assert_fails("timeout", testing.eventually(function() return false end, 0.3))
    testing.resume()
    assert.is_true(core.now() - from < 1 + wait.SLACK)
  end)

  it("gives up after its time", function()
    local count = 0
    assert_fails("timeout", testing.eventually(function() count = count + 1 end, 0.03))
    assert.is_true(count > 1)
  end)
end)

describe("testing.lose", function()
  it("leaves every name of the hold free", function()
    for _, reason in ipairs { "expired", "max_hold" } do
      for _ = 1, 20 do
        assert(client:multi_lock { "a", "b" })
        assert.is_true(testing.lose("b", reason))
        assert(assert(other:try_multi_lock { "a", "b" }):unlock())
      end
    end
  end)

  for reason in pairs(require("etcdlock.testing.calls").REASONS) do
    it("ends a hold now: " .. reason, function()
      local told
      local lock = assert(client:lock("a", { linger = 5 }))
      lock:on_lost(function(_, why) told = why end)
      assert.is_true(testing.lose("a", reason))
      assert.same({ false, "lost" }, { lock:held() })
      assert.equal(reason, told)
      assert.equal(reason, lock:wait_lost(0))
      assert_fails("lost", lock:put("k", "v"))
      assert_fails("lost", lock:unlock())
      assert.is_false(read "k")
      assert(assert(other:lock("a", { timeout = 5 })):unlock())
      assert(assert(client:lock "a"):unlock()) -- the client goes on
    end)
  end

  -- Regression 328. If the client watched the key, it knew of the loss before testing.lose had it
  -- call the on_lost functions. Then testing.lose returned before they had run.
  it("calls the on_lost functions if the client watches the key", function()
    for _ = 1, 5 do
      local told
      local lock = assert(client:lock "a")
      lock:on_lost(function(_, why) told = why end)
      clients.await_watched(client, lock)
      assert.is_true(testing.lose "a")
      assert.equal("expired", told)
    end
  end)

  it("ends holds of every mode", function()
    local locks = {
      a = assert(client:read_lock "a"), b = assert(client:multi_lock { "c", "b" }),
      s = assert(assert(client:semaphore("s", 2)):lock()),
      e = assert(assert(client:election "e"):campaign "me"),
    }
    for name, lock in pairs(locks) do
      assert.is_true(testing.lose(name))
      assert.is_false((lock:held()), name)
    end
    assert.is_false(assert(other:election "e"):leader())
  end)

  it("does not end holds of others", function()
    local lock = assert(other:lock "a")
    assert_fails("not_held", testing.lose "a")
    assert.is_true((lock:held()))
    assert.has_error(function() testing.lose("a", "bad luck") end)
  end)
end)

describe("testing.fail", function()
  local function put()
    return client:with_lock("a", function(lock) return lock:put("k", "new") end)
  end

  before_each(function()
    assert(other:with_lock("test", function(lock) assert(lock:put("k", "old")) end))
  end)

  for outcome, value in pairs { applied = "new", unavailable = "old" } do
    it("ends a write with unavailable, and etcd has the value " .. value, function()
      local ok, done, _, code = testing.fail("lock:put", outcome, put)
      assert.same({ true, nil, "unavailable" }, { ok, done, code })
      assert.equal(value, read "k")
    end)
  end

  it("fails the nth call only", function()
    local codes = {}
    testing.fail("lock:put", "unavailable", function()
      client:with_lock("a", function(lock)
        for i = 1, 3 do codes[i] = select(3, lock:put("k", "new")) or "ok" end
      end)
    end, 2)
    assert.same({ "ok", "unavailable", "ok" }, codes)
  end)

  for call, wanted in pairs { ["lock:put"] = "old", ["client:with_lock"] = "new" } do
    it("loses the hold: " .. call, function()
      local ok, _, code, has_run = testing.fail(call, "lost", put)
      assert.same({ nil, "lost", true }, { ok, code, has_run })
      assert.equal(wanted, read "k")
    end)
  end

  it("loses only the confirmation of a release", function()
    local lock = assert(client:lock "a")
    assert_fails("unavailable", testing.fail("lock:unlock", "unavailable", function()
      return lock:unlock()
    end))
    assert(other:try_lock "a")
  end)

  it("does not give the lock", function()
    local has_run
    for outcome in ("timeout unavailable"):gmatch "%a+" do
      assert_fails(outcome, testing.fail("client:with_lock", outcome, function()
        return client:with_lock("a", { timeout = 5 }, function() has_run = true end)
      end))
    end
    assert.is_nil(has_run)
    assert_fails("locked", testing.fail("client:try_lock", "locked", function()
      return client:try_lock "a"
    end))
    assert(other:try_lock "a")
  end)

  it("makes a write that would follow a failed read fail with unread", function()
    assert_fails("unread", testing.fail("lock:get", "unavailable", function()
      local lock = assert(client:lock "a")
      return lock:put("k", lock:get "k" or "none")
    end))
  end)

  it("raises the function's error, and if the call cannot be made to fail", function()
    assert.has_error(function() testing.fail("lock:get", "lost", function() error "oops" end) end)
    assert.has_error(function() testing.fail("lock:get", "lost", put) end,
      "testing.fail: the function makes no call lock:get that could fail")
    assert.has_error(function() testing.fail("lock:put", "lost", put, 2) end,
      "testing.fail: the function makes lock:put 1 time, and number 2 was to fail")
    assert.has_error(function() testing.fail("lock:put", "lost", put, 0) end,
      "testing.fail: nth = 0, wanted a whole number from 1 on")
    assert.has_error(function() testing.fail("lock:put", "locked", put) end,
      "testing.fail: this lock:put cannot end with locked, only with lost unavailable applied ")
    local function nested() testing.outage(put) end
    assert.has_error(function() testing.fail("lock:put", "lost", nested) end,
      "testing.outage: another function of etcdlock.testing makes calls fail already")
    assert.is_true((put()))
  end)
end)

describe("etcd is away", function()
  it("for the calls in testing.outage, and back after it", function()
    local lock, started_at = assert(client:lock "a"), core.now()
    testing.outage(function()
      assert_fails("unavailable", client:lock "b")
      assert_fails("unavailable", lock:put("away", "v"))
      assert_fails("unavailable", lock:get "away")
      assert_fails("unavailable", client:queue "a")
      assert_fails("unavailable", assert(client:election "e"):leader())
      assert_fails("unavailable", assert(client:election "e"):observe():next())
      assert_fails("unavailable", client:lock_async "b")
      assert.is_true((lock:held()))
      assert.is_true(#other:queue "a" == 1)
    end)
    assert.is_true(core.now() - started_at < 1)
    assert.is_false(lock:get "away")
    assert.is_true((lock:check()))
  end)

  it("from testing.pause to testing.resume", function()
    testing.start()
    assert(client:ping())
    testing.pause()
    local got = client:try_lock "a"
    testing.resume()
    assert.is_nil(got)
    assert(client:ping())
  end)
end)
