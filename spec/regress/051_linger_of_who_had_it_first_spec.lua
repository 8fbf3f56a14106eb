-- A key that lingered and was taken again lingered as long the next time as whoever had it
-- first had said, whatever the call that took it again said.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local client

before_each(function()
  client = clients.connector { endpoints = suite.endpoints(), prefix = prefix, ttl = 60 } ()
end)
after_each(clients.close_all)

-- Lets it linger, for |seconds| from now on.
local function leave(seconds)
  local lock = assert(client:lock("a", { linger = seconds }))
  clients.await_watched(client, lock) -- else it may not linger
  assert.is_true(lock:unlock())
  return lock:token()
end

it("who lingers for less time than who had it first has it less long", function()
  assert.equal(leave(60), leave(0.1))
  etcd:await_keys(prefix .. "a/", 0, 5)
end)

it("who lingers for more time has it longer", function()
  leave(2)
  leave(60)
  local last = leave(60)
  wait.sleep(2.5)
  assert.equal(last, leave(60))
end)
