-- While a client's own key lingered, other owners of this client got the lock only after the linger
-- time. A try in another mode returned "locked" because of this key.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = suite.endpoints(), prefix = prefix, ttl = 60 }
local granted = clients.granted
local client

before_each(function() client = connect() end)
after_each(clients.close_all)

-- Seconds: longer than any wait of the suite.
local LONG = 86400

it("regression 066: owners that wait get a lock with a long linger in their order", function()
  local opts = { linger = LONG }
  local first = assert(client:lock("a", { linger = LONG, owner = 0 }))
  local pending = {}
  for i = 1, 5 do
    pending[i] = assert(client:lock_async("a", { linger = LONG, owner = i }))
  end
  assert.is_true(first:unlock())
  for i = 1, 5 do
    local lock = granted(pending[i])
    assert.is_true(lock:unlock())
    -- Another try must come after the owners that wait.
    local again = client:try_lock("a", opts)
    if i < 5 then assert.is_nil(again) else assert.is_true(again:unlock()) end
  end
end)

it("regression 066: owners that acquire a lingering lock in turns all get it", function()
  local counts, pending, n, total = {}, {}, 10, 0
  for i = 1, n do
    counts[i] = 0
    pending[i] = assert(client:lock_async("b", { linger = LONG, owner = i }))
  end
  local function step_each()
    for i = 1, n do
      local lock = pending[i]:step()
      if lock then
        assert.is_true(lock:unlock())
        counts[i], total = counts[i] + 1, total + 1
        pending[i] = assert(client:lock_async("b", { linger = LONG, owner = i }))
      end
    end
  end
  wait.eventually(function()
    for _ = 1, n do step_each() end
    return total >= 40 * n, total
  end, 10, "40 turns for each owner")
  for i = 1, n do assert.is_true(counts[i] > 1, "owner " .. i .. " got it " .. counts[i]) end
end)

for _, mode in ipairs { "read", "write", "multi" } do
  it("regression 066: a try in mode " .. mode .. " gets a lock whose own key lingers", function()
    local name = mode == "multi" and { "c", "d" } or "c"
    for _ = 1, 20 do
      assert.is_true(assert(client:lock("c", { linger = LONG })):unlock())
      local lock = assert(client["try_" .. mode .. "_lock"](client, name))
      assert.is_true(lock:unlock())
    end
    assert.same({}, etcd:keys(prefix .. "c/"))
  end)

  it("regression 066: a waiter in mode " .. mode .. " gets a lock whose own key lingers", function()
    local name = mode == "multi" and { "e", "f" } or "e"
    for _ = 1, 5 do
      local lock = assert(client:lock("e", { linger = LONG }))
      local pending = assert(client[mode .. "_lock_async"](client, name, { owner = 2 }))
      assert.is_true(lock:unlock())
      assert.is_true(granted(pending):unlock())
    end
  end)
end
