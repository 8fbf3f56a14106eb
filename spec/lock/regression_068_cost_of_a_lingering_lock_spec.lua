-- A hold with a short linger woke the process hundreds of times per second. stats counted a key
-- that only lingered as held. A key with a lock delay could linger: after a crash it blocked
-- others, although it had been unlocked.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local connect = clients.connector {
  endpoints = suite.endpoints(), prefix = suite.prefix(), ttl = 60,
}

after_each(clients.close_all)

-- Returns how often the threads of this process have gone to sleep.
local function sleeps()
  local n = 0
  local list = assert(io.popen("cat /proc/" .. require("etcdlock.core").pid()
    .. "/task/*/status 2>/dev/null"))
  for line in list:lines() do
    n = n + (tonumber(line:match "^voluntary_ctxt_switches:%s*(%d+)") or 0)
  end
  list:close()
  return n
end

it("regression 068: a hold with a linger of 1 ms does not wake the process", function()
  local client = connect()
  local lock = assert(client:lock("a", { linger = 0.001 }))
  clients.await_watched(client, lock)
  local before = sleeps()
  wait.sleep(1)
  assert.is_true(sleeps() - before < 200, sleeps() - before)
  assert.is_true(lock:unlock())
end)

it("regression 068: stats does not count a lingering lock as held", function()
  local client = connect()
  local lock = assert(client:lock("b", { linger = 60 }))
  assert.equal(1, client:stats().held)
  assert.is_true(lock:unlock())
  assert.equal(0, client:stats().held)
  lock = assert(client:lock("b", { linger = 60 }))
  assert.equal(1, client:stats().held)
  assert.is_true(lock:unlock())
end)
