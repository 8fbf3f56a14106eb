-- A lock of the core that was released while it was pending stayed held in 22 of 3,000 rounds,
-- because the state in Lua and the local queue disagreed about the release.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local ROUNDS = 300
local connect = clients.connector { endpoints = suite.endpoint(), prefix = prefix, ttl = 60 }

after_each(clients.close_all)

-- Asks |core| for the lock |name| and releases it after |spins| short calls. Depending on |spins|,
-- the release comes before the request leaves, long after its answer, or in between. Returns the
-- released lock.
local function release_after(core, name, spins)
  local wish = assert(core:lock(prefix .. name, ""))
  for _ = 1, spins do core:stats() end
  wish:release()
  assert.is_nil((wish:left()))
  return wish
end

it("regression 033: a core lock released while it is pending is not held afterwards", function()
  local client = connect()
  assert(client:lock "warm"):unlock()
  local wishes = {}
  for i = 1, ROUNDS do
    -- All rounds share the first name. The second name is used only once.
    wishes[2 * i - 1] = release_after(client._core, "one", i * 7 % 400)
    wishes[2 * i] = release_after(client._core, "name/" .. i, i * 13 % 400)
  end
  wait.eventually(function()
    local stats = client:stats()
    return stats.held == 0 and stats.waiting == 0
  end, 10, "all are released")
  for _, wish in ipairs(wishes) do assert.is_nil((wish:left())) end
  etcd:await_keys(prefix, 0, 10)
  assert(client:try_lock "one"):unlock()
end)
