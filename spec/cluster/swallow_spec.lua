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
    local client = connect { ttl = TIMEOUT }
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

  it("is left by a client that waits for its turn", function()
    local holder = assert(connect { endpoints = etcd:endpoint(2) }:lock "a")
    local waiter = connect { ttl = TIMEOUT }
    local wish = assert(waiter._core:lock(prefix .. "a", "", nil, nil, false))
    wait.eventually(function() return #etcd:keys(prefix .. "a") == 2 end)
    silent:swallow()
    wait.sleep(TIMEOUT)
    assert.is_nil((wish:wait(0)))
    assert.is_true(holder:unlock())
    local ok, message = wish:wait(TIMEOUT)
    assert.is_true(ok, message)
    wish:release()
  end)

  it("is left by a try and by a release", function()
    local client = connect { ttl = 10 }
    local lock = assert(client:lock "a")
    silent:swallow()
    local tried = client:try_lock "b" -- in its 2 s, or not
    if tried then tried:unlock() end
    local ok, message, code = lock:unlock()
    assert.is_true(ok or code == "unavailable", message)
    wait.eventually(function() return #etcd:keys(prefix) == 0 end, TIMEOUT)
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
