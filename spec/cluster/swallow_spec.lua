-- A member that takes all that is sent to it and never says a word, while its
-- connections stay open: a machine that hangs, a firewall that drops.

local Etcd = require "spec.support.servers.etcd"
local Swallow = require "spec.support.servers.swallow"
local etcdlock = require "etcdlock"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()

-- In which a lock is had although its member has fallen silent; half of it is
-- what it takes.
local TIMEOUT = 5

local etcd, silent, clients

local function connect(opts)
  local all = {
    endpoints = { silent:endpoint(), etcd:endpoint(2), etcd:endpoint(3) }, prefix = prefix,
  }
  for name, value in pairs(opts or {}) do all[name] = value end
  local client = assert(etcdlock.connect(all))
  clients[#clients + 1] = client
  return client
end

setup(function()
  etcd = Etcd.start { members = 3 }
  silent = Swallow.start(etcd:endpoint(1))
end)

teardown(function()
  silent:stop()
  etcd:stop()
end)

before_each(function()
  silent:forward()
  clients = {}
end)

after_each(function()
  for _, client in ipairs(clients) do client:close() end
end)

describe("a member that swallows", function()
  it("from the start is left in time", function()
    silent:swallow()
    local lock, message = connect():lock("a", { timeout = TIMEOUT })
    assert.is_truthy(lock, message)
    assert.is_true(lock:unlock())
    assert.is_true(silent:forward() > 0, "nobody has asked it")
  end)

  it("all of a sudden is left in time, and no lock is lost", function()
    local client = connect { ttl = 2 * TIMEOUT }
    local lock = assert(client:lock "held")
    silent:swallow()
    local another, message = client:lock("a", { timeout = TIMEOUT })
    assert.is_truthy(another, message)
    assert.is_true(another:unlock())
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
  end)

  it("is left by a client that only holds", function()
    local lock = assert(connect { ttl = TIMEOUT }:lock "held")
    silent:swallow()
    -- Longer than it could be claimed without another member.
    local deadline = wait.now() + TIMEOUT + 1
    while wait.now() < deadline do
      assert.is_true(lock:held())
      wait.sleep(0.05)
    end
    assert.is_true(lock:unlock())
  end)

  -- Longer than one may say nothing, and without a moment in which none is asked: each
  -- lock leaves when the one before is answered, and that is in the middle of a ping.
  it("is not taken for one that is never done, because it answers", function()
    finally(function() silent:slow(0) end)
    wait.eventually(function()
      silent:slow(0)
      local client = connect { endpoints = silent:endpoint() }
      assert(client:lock("first", { timeout = TIMEOUT }))
      local before = client:stats().failed_attempts
      silent:slow(0.2)
      local asked, longest = { assert(client:lock_async "busy1") }, 0
      wait.sleep(0.1)
      local deadline = wait.now() + 2.5
      repeat
        asked[#asked + 1] = assert(client:lock_async("busy" .. #asked + 1))
        longest = math.max(longest, (assert(client:ping())))
      until wait.now() > deadline
      local failed = client:stats().failed_attempts - before
      client:close()
      local is_believed = #asked > 5 and failed == 0
      -- Or the etcd behind it said nothing for a while, too.
      assert.is_true(is_believed or longest > 0.35, failed .. " failed, of " .. #asked)
      return is_believed
    end, 5, "an etcd that always answers")
  end)

  it("is left by a client that waits for its turn", function()
    local holder = assert(connect { endpoints = etcd:endpoint(2) }:lock "a")
    local waiter = connect { ttl = TIMEOUT }
    local wish = assert(waiter._core:lock(prefix .. "a", ""))
    etcd:await_keys(prefix .. "a", 2)
    silent:swallow()
    wait.sleep(TIMEOUT / 2)
    assert.is_nil((wish:wait(0)))
    assert.is_true(holder:unlock())
    local ok, message = wish:wait(4) -- by the watch, not by the next look
    assert.is_true(ok, message)
    wish:release()
  end)

  for _, count in ipairs { 1, 8 } do
    it(("is left for good, and with all %d that it was asked"):format(count), function()
      wait.eventually(function()
        silent:forward()
        local client = connect { endpoints = { silent:endpoint(), etcd:endpoint(2) } }
        local held, asked = assert(client:lock("held", { timeout = TIMEOUT })), {}
        wait.eventually(function() return client:stats().watches == 1 end)
        assert.is_true(held:check())
        local before, from = client:stats().failed_attempts, wait.now()
        silent:swallow()
        for i = 1, count do asked[i] = assert(client:lock_async("a" .. i, { owner = i })) end
        for i = 1, count do
          wait.eventually(function() return asked[i]:dirty() end, 1, "all are asked again")
        end
        local took = wait.now() - from
        -- Each was asked in vain once, and so was, perhaps, what the client asked by itself.
        local failed = client:stats().failed_attempts - before
        local is_once = failed == count or failed == count + 1
        -- Or the other member was silent, too, for as long as one may be.
        assert.is_true(is_once or took > 2 * 0.6, failed .. " failed")
        for i = 1, count do assert(asked[i]:step()):unlock() end
        assert.is_true(held:check())
        assert.is_true(held:unlock())
        client:close()
        -- Sooner than each of them gives up by itself.
        return is_once and took < 2.6, took
      end, 5, "another member that always answers")
    end)
  end

  it("isn't asked by one whose own member answers, whatever he loses", function()
    wait.eventually(function()
      local before, has_left = silent:swallow(), false
      local client = connect {
        endpoints = { etcd:endpoint(2), silent:endpoint() }, ttl = 3,
        log = function(event) has_left = has_left or event.event == "member_left" end,
      }
      for i = 1, 3 do
        local lock = assert(client:lock("a" .. i, { timeout = TIMEOUT }))
        local renewals = client:stats().keepalives
        wait.eventually(function() return client:stats().keepalives > renewals + 1 end)
        etcd:revoke(lock:lease())
        assert.is_string(lock:wait_lost(TIMEOUT))
      end
      local failed = client:stats().failed_attempts
      client:close()
      local is_spared = silent:forward() == before
      -- Or the own one didn't answer for too long.
      assert.is_true(is_spared or has_left or failed > 0, "it was asked")
      return is_spared
    end, 5, "an own member that always answers")
  end)

  it("is left by a try and by a release", function()
    local client = connect { ttl = 10 }
    local lock = assert(client:lock "a")
    silent:swallow()
    local tried = client:try_lock "b" -- in its 2 s, or not
    if tried then tried:unlock() end
    local ok, message, code = lock:unlock()
    assert.is_true(ok or code == "unavailable", message)
    etcd:await_keys(prefix, 0, TIMEOUT)
  end)

  it("is, when it is the only one, unavailable", function()
    local client = connect { endpoints = silent:endpoint() }
    local lock = assert(client:lock "a")
    silent:swallow()
    local from = wait.now()
    local other, message, code = client:lock("b", { timeout = 2 })
    assert.is_nil(other)
    assert.equal("unavailable", code)
    assert.matches(silent.address, message, 1, true)
    assert.is_true(wait.now() - from < 2 + wait.SLACK)
    silent:forward()
    assert(client:lock("b", { timeout = TIMEOUT }))
    assert.is_true(lock:check())
  end)
end)
