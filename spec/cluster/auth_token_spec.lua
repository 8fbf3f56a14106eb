-- Tests etcd's auth tokens: a client uses one token for all its requests, and replaces it
-- without an effect on holds and waits when it expires or is dropped.
-- Needs: one plain member.

local http = require "socket.http"

-- SECONDS: how long the test of expiring tokens runs. LIFE: seconds for which its tokens are valid.
local SECONDS = tonumber(os.getenv "ETCDLOCK_TOKEN_SECONDS") or 8
local LIFE = 2

local etcd
-- An etcd that loses all tokens at a restart, because frequent snapshots truncate its log.
local forgetful

setup(function()
  local all = secured.start_all(prefix, { {}, { args = { "--snapshot-count", "5" } } })
  etcd, forgetful = all[1], all[2]
end)

local authentications = secured.authentications

local function options(changes) return secured.options(etcd, prefix, changes) end

client_options(options)

-- Makes the etcd |one| drop its tokens.
local function switch_off_and_on(one)
  secured.ctl(one, "auth", "disable")
  secured.ctl(one, "auth", "enable")
end

describe("an auth token", function()
  -- Starts |count| lock calls of |client| at once, waits until all are granted, and releases
  -- the locks.
  local function call_at_once(client, name, count)
    local locks = {}
    for i = 1, count do locks[i] = client:lock(prefix .. name .. i, "", "lock", 5) end
    for _, lock in ipairs(locks) do
      local held, message
      repeat held, message = lock:wait(1) until held or message
      assert(held, message)
    end
    for _, lock in ipairs(locks) do lock:release() end
  end

  -- Returns whether the client requested exactly one token during call(). Fails if it requested
  -- another number, unless call() took more than 0.6 s, because the machine is busy.
  local function asks_once(call)
    local before, from = authentications(etcd), wait.now()
    call()
    local took, count = wait.now() - from, authentications(etcd) - before
    assert.is_true(count == 1 or took > 0.6, ("%d tokens in %.1f s"):format(count, took))
    return count == 1
  end

  it("is requested once for 100 calls, and once more after etcd dropped it", function()
    local client
    finally(function() client:close(1) end)
    wait.eventually(function()
      if client then client:close(1) end
      client = assert(core.connect {
        endpoints = { etcd:endpoint() }, ttl = 300, user = "locker", password = secured.PASSWORD,
      })
      return asks_once(function()
        call_at_once(client, "first/", 50)
        call_at_once(client, "second/", 50)
      end)
    end, 5, "one token for all")
    wait.eventually(function()
      switch_off_and_on(etcd)
      return asks_once(function() call_at_once(client, "third/", 50) end)
    end, 5, "one more")
  end)

  it('given as an option works until etcd drops it; then lock returns "unauthenticated"', function()
    -- The token comes from etcd's HTTP gateway.
    local answer = assert(http.request(etcd:endpoint() .. "/v3/auth/authenticate",
      ('{"name":"locker","password":"%s"}'):format(secured.PASSWORD)))
    local token = answer:match '"token":"([^"]+)"'
    local client = connect { user = NONE, password = NONE, token = token }
    local lock = assert(client:lock "a")
    assert.is_true(lock:check())
    assert.is_nil(tostring(client):find(token, 1, true))
    assert(lock:unlock())
    switch_off_and_on(etcd)
    local message = assert_fails("unauthenticated", client:lock "a")
    assert.is_nil(message:find(token, 1, true), message)
  end)
end)

describe("holds, waits and new locks", function()
  -- Takes free and contended locks and writes data, with clients that have the options |at|.
  local function work(at)
    local client, other = connect(at), connect(at)
    for _ = 1, 10 do
      local lock = assert(client:lock "work")
      assert(lock:put(prefix .. "data", "v"))
      assert(lock:delete(prefix .. "data"))
      assert(lock:unlock())
      assert(other:lock "work"):unlock()
    end
  end

  -- Asserts that a hold and a wait in the etcd |one| go on during and after disturb(worker),
  -- and that clients can take locks afterwards.
  local function assert_undisturbed(one, disturb)
    local at = { endpoints = one:endpoint(), ttl = 15 }
    local holder, worker = connect(at), connect(at)
    local hold = assert(holder:lock "long")
    assert(worker:lock "a"):unlock()
    local waiter = remote.start(options(at))
    remote.send_take(waiter, "long", 60)
    wait.eventually(function() return #assert(holder:queue "long") == 2 end)
    disturb(worker)
    assert(worker:lock "a"):unlock()
    work(at)
    assert.is_true(hold:held())
    assert.is_true(hold:check())
    assert.equal(0, holder:stats().lost)
    remote.assert_waits(waiter)
    local token = hold:token()
    assert(hold:unlock())
    assert.is_true(remote.taken(waiter, 2) > token)
    remote.release(waiter)
    waiter:wait()
  end

  it("continue while a role changes repeatedly", function()
    assert_undisturbed(etcd, function(worker)
      for _ = 1, 5 do
        secured.ctl(etcd, "role", "grant-permission", "locks", "read", "elsewhere")
        assert(worker:lock "a"):unlock()
        secured.ctl(etcd, "role", "revoke-permission", "locks", "elsewhere")
        assert(worker:lock "a"):unlock()
      end
    end)
  end)

  it("continue after authentication is disabled and enabled again", function()
    assert_undisturbed(etcd, function(worker)
      secured.ctl(etcd, "auth", "disable")
      assert(worker:lock "a"):unlock()
      secured.ctl(etcd, "auth", "enable")
    end)
  end)

  it("continue after a restart in which etcd loses all tokens", function()
    local function snapshots()
      local count, scan = 0, assert(uv.fs_scandir(forgetful.members[1].data .. "/member/snap"))
      for name in function() return uv.fs_scandir_next(scan) end do
        if name:find "%.snap$" then count = count + 1 end
      end
      return count
    end
    assert_undisturbed(forgetful, function()
      local before = snapshots()
      wait.eventually(function()
        forgetful:put(prefix .. "filler", "v")
        return snapshots() > before
      end, 5, "a snapshot")
      forgetful:del(prefix .. "filler")
      forgetful:restart()
    end)
  end)
end)

describe("simple tokens and JWT that live for 2 s", function()
  local files

  setup(function() files = Certs.new() end)
  teardown(function() files:remove() end)

  -- A program that takes and releases a lock again and again for some seconds. After every 25th
  -- time it makes a longer pause.
  local CYCLES = [[
    local uv = require 'luv'
    local name, seconds, pause = '%s', %d, %g
    local deadline, count = uv.hrtime() + seconds * 1e9, 0
    while uv.hrtime() < deadline do
      local lock = assert(client:lock(name, { timeout = 5 }))
      assert(lock:check())
      assert(lock:put(lock:key() .. '/data', 'v'))
      assert(lock:delete(lock:key() .. '/data'))
      assert(lock:unlock())
      count = count + 1
      uv.sleep(count %% 25 == 0 and pause > 0 and pause * 1000 or 20)
    end
    return count, client:stats().lost
  ]]

  -- Seconds. A token that is not used for this time expires and is deleted: etcd deletes expired
  -- tokens once a second.
  local PAUSE = LIFE + 1.2
  -- TTL in seconds. The client renews the lease every LONG / 3 seconds, which is longer than PAUSE,
  -- so its token has expired at each renewal.
  local LONG = 3 * PAUSE + 0.5

  -- Starts clients of the etcd |one| that use many tokens; returns a function that asserts
  -- that no call, hold or wait failed.
  local function start(one)
    local opts = secured.options(one, prefix, { ttl = LONG })
    local busy, lazy, holder, waiter = remote.start(opts, 4)
    local token = remote.take(holder, "long")
    remote.send_take(waiter, "long", SECONDS + 20)
    one:await_keys(prefix .. "long/", 2)
    local before, from = authentications(one), wait.now()
    remote.send(busy, CYCLES:format("busy", SECONDS, 0))
    remote.send(lazy, CYCLES:format("lazy", SECONDS, PAUSE))
    return function()
      for _, child in ipairs { busy, lazy } do
        local results = remote.answer_of(child, SECONDS + 10)
        assert.is_true((tonumber(results[1]) or 0) >= SECONDS, table.concat(results, " "))
        assert.equal("0", results[2])
      end
      remote.assert_renewed(holder, from, LONG)
      remote.assert_held(holder, token)
      remote.assert_waits(waiter)
      remote.release(holder)
      assert.is_true(remote.taken(waiter, 2) > token)
      remote.assert_held(waiter, remote.ask(waiter, "return lock:token()")[1])
      remote.release(waiter)
      -- The clients needed many tokens, and did not request many more.
      local lives, count = (wait.now() - from) / LIFE, authentications(one) - before
      assert.is_true(count >= SECONDS / PAUSE and count <= 4 * (lives + 2), count .. " tokens")
    end
  end

  it("are replaced only as needed, and no lock call, hold or wait fails", function()
    local all = secured.start_all(prefix, {
      { args = { "--auth-token-ttl", ("%d"):format(LIFE) } },
      { args = { secured.jwt(files, LIFE) } },
    })
    local joins = {}
    for i, one in ipairs(all) do joins[i] = start(one) end
    for _, join in ipairs(joins) do join() end
  end)
end)

describe("a token that arrives during close", function()
  -- close waits for 0 to 1.8 ms, so that the token arrives before, at or after the end of close.
  it('does not delay close; the pending lock is granted or "closed"', function()
    local server = clients.scripted(etcd:endpoint())
    for i = 0, 19 do
      local client = assert(core.connect {
        endpoints = { server:endpoint() }, ttl = 2, user = "locker", password = secured.PASSWORD,
      })
      server:hold_back("Authenticate", -1)
      local lock = assert(client:lock(prefix .. "a", ""))
      wait.eventually(function() return server:held "Authenticate" >= 1 end, 5, "the token")
      local finish_telling = server:start_to_tell "Authenticate"
      local from = wait.now()
      client:close(i % 10 / 5000)
      assert.is_true(wait.now() - from < wait.SLACK)
      finish_telling()
      local held, message, code = lock:wait(0) -- granted if the token arrived in time
      assert.is_true(held or code == "closed", message)
      assert.is_nil((lock:left()))
    end
    etcd:await_keys(prefix, 0)
  end)
end)
