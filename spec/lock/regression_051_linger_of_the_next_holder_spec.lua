-- If a hold took over a lingering key and had another linger time, the key still lingered for the
-- time of the first hold.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local client

before_each(function()
  client = clients.connector { endpoints = suite.endpoints(), prefix = prefix, ttl = 60 } ()
end)
after_each(clients.close_all)

-- Takes the lock and releases it with a linger of |seconds|; returns the token.
local function leave(seconds)
  local lock = assert(client:lock("a", { linger = seconds }))
  -- A key that is not watched yet does not always linger.
  clients.await_watched(client, lock)
  assert.is_true(lock:unlock())
  return lock:token()
end

it("regression 051: a shorter linger replaces the longer one of the previous hold", function()
  assert.equal(leave(60), leave(0.1))
  etcd:await_keys(prefix .. "a/", 0, 5)
end)

it("regression 051: a longer linger replaces the shorter one of the previous hold", function()
  leave(2)
  leave(60)
  local last = leave(60)
  wait.sleep(2.5)
  assert.equal(last, leave(60))
end)
