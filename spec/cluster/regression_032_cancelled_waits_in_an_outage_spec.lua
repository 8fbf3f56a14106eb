-- A program cancelled 1,500 waits while etcd refused all requests. The client then sent 3,508
-- requests a second, although no call waited any more. It sent all retries at the same time.

local clients = require "spec.support.harness.clients"
local error_rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local WAITS, SECONDS, RATE = 1500, 3, 100 -- RATE: requests a second
local server, client

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 60 })
end)

after_each(clients.close_all)

-- Returns how many requests about keys or the lease the server has got.
local function requests()
  return server:calls "Txn" + server:calls "Range" + server:calls "LeaseTimeToLive"
end

it("regression 032: waits cancelled in an outage cause at most 100 requests a second", function()
  local waits = {}
  for i = 1, WAITS do waits[i] = assert(client:lock_async("a/" .. i)) end
  etcd:await_keys(prefix .. "a/", WAITS, 30)
  server:answer("Txn", "before", error_rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
  local before, from = requests(), wait.now()
  for i = 1, WAITS do waits[i]:cancel() end
  wait.sleep(SECONDS)
  local count = requests() - before
  assert.is_true(count > 0 and count <= RATE * (wait.now() - from), count .. " requests")
  server:pass()
  etcd:await_keys(prefix .. "a/", 0, 60)
  assert(client:lock("a/1", { timeout = 10 })):unlock()
end)
