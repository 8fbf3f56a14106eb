-- close revoked the lease of a lost hold, so the next owner got the lock before the lock delay was
-- over. A keepalive during the lock delay did the same if its answer had TTL 0. A deposed leader of
-- etcd may send such an answer while the lease lives.
-- Needs: one plain member.

local clients = require "spec.support.harness.clients"
local proc = require "spec.support.programs.proc"
local protobuf = require "spec.support.servers.protobuf"
local rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local TTL, DELAY = 2, 5 -- seconds
local server, client, other

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), {
    prefix = prefix, ttl = TTL, lock_delay = DELAY,
  })
  other = clients.connector { endpoints = suite.endpoint(), prefix = prefix, ttl = 30 }
    { elsewhere = true }
end)

after_each(function()
  clients.close_all()
  proc.destroy_children()
  etcd:revoke_all()
  etcd:del_all(prefix)
end)

-- Makes all keepalives fail until server:pass.
local function stop_keepalives()
  server:answer("LeaseKeepAlive", "before", rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
  server:interrupt("LeaseKeepAlive", rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
end

-- Takes the lock "a" and loses it because no keepalive is answered. Returns the time before which
-- no other owner may have the lock.
local function lose()
  local lock = assert(client:lock "a")
  stop_keepalives()
  local over = wait.now() + select(2, lock:held()) + DELAY
  assert.equal("expired", lock:wait_lost(10))
  return over
end

-- Asserts that |asked| gets its lock after the time |over|, and at most 2 s later (more on a busy
-- machine).
local function assert_granted_after(over, asked)
  local lock = clients.granted(asked)
  local now = wait.now()
  assert.is_true(now >= over, ("%.2f s too soon"):format(over - now))
  assert.is_true(now <= over + 2 + wait.SLACK, ("%.2f s late"):format(now - over))
  assert.is_true(lock:unlock())
end

local function close_in_time()
  local from = wait.now()
  client:close()
  local took = wait.now() - from
  assert.is_true(took < 0.5 + wait.SLACK, "close took " .. took)
end

it("regression 064: close during the lock delay of a lost hold keeps its lease", function()
  local over = lose()
  local asked = assert(other:lock_async "a")
  server:pass()
  close_in_time()
  assert_granted_after(over, asked)
end)

it("regression 064: close during a lock delay releases other locks and waits at once", function()
  local blocked = assert(other:lock "c")
  local over = lose()
  server:pass()
  local from = wait.now()
  clients.keep(assert(client:lock "b"))
  local waiter = assert(client:lock_async "c")
  wait.eventually(function() return #assert(other:queue "c") == 2 end, 5, "the wait")
  local asked = { other:lock_async "a", other:lock_async "b" }
  assert.is_true(wait.now() - from < DELAY / 2, "too slow for this test")
  close_in_time()
  assert.equal("closed", select(3, clients.ended(waiter)))
  assert.is_true(clients.granted(asked[2]):unlock())
  wait.eventually(function() return #assert(other:queue "c") == 1 end, 5, "the end of the wait")
  assert.is_true(wait.now() < over, "the lock was released with the lease only")
  assert.is_true(blocked:unlock())
  assert_granted_after(over, asked[1])
end)

it("regression 064: close after the lock delay of a lost hold revokes the lease", function()
  local over = lose()
  server:pass()
  wait.eventually(function() return wait.now() > over + 0.5 end, DELAY + 1, "the end of the delay")
  clients.assert_nothing_left(etcd, prefix, function()
    local from = wait.now()
    client:close()
    other:close()
    return from
  end)
end)

it("regression 064: a process that ends after a lost hold leaves the lock delay", function()
  local child = proc.lua([[
    local endpoint, prefix, ttl, delay = ...
    local client = assert(require("etcdlock").connect {
      endpoints = endpoint, prefix = prefix, ttl = tonumber(ttl), lock_delay = tonumber(delay),
    })
    local lock = assert(client:lock "a")
    print(select(2, lock:held()))
    io.read()
    assert(not lock:held())
    client:close()
    print "closed"
  ]], suite.endpoint(), prefix, tostring(TTL), tostring(DELAY))
  child:expect("^%d", 10)
  -- This is the earliest time: the last keepalive may be TTL / 3 old.
  local over = wait.now() + DELAY + 1
  local asked = assert(other:lock_async "a")
  child:kill "sigstop"
  wait.sleep(TTL + 0.2)
  child:kill "sigcont"
  child:send "go on"
  child:expect("^closed", 5)
  clients.assert_wait(asked)
  assert_granted_after(over, asked)
end)

it("regression 064: a false TTL of 0 during the lock delay does not revoke the lease", function()
  local over = lose()
  local asked = assert(other:lock_async "a")
  server:extend("LeaseKeepAlive", protobuf.number(3, 0), 1)
  wait.eventually(function() return client:lease() == nil end, 5, "the end of the session")
  clients.assert_wait(asked)
  assert_granted_after(over, asked)
end)
