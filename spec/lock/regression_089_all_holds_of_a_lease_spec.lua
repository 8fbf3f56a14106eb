-- When a lease ended in etcd, or another cluster answered, the holds of a client ended one after
-- the other. For a moment, some were still "held" while others were already "lost".
-- Needs: one plain member.

local Etcd = require "spec.support.servers.etcd"
local clients = require "spec.support.harness.clients"
local protobuf = require "spec.support.servers.protobuf"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()
local COUNT = 1000

-- Lets |client| take COUNT locks, and returns them.
local function take_many(client)
  local locks = {}
  for i = 1, COUNT do
    locks[i] = assert(client:lock_async("a" .. i, { owner = i, timeout = 60 }))
  end
  for i = 1, COUNT do locks[i] = clients.granted(locks[i]) end
  return locks
end

-- Checks the locks again and again until one is lost. Returns how many locks that were checked
-- after this one were still held, and the reasons of the losses.
local function held_after_a_loss(locks)
  local held, is_lost, reasons = 0, false, {}
  local ends = wait.now() + 30
  repeat
    for _, lock in ipairs(locks) do
      local is_held = lock._core:left() ~= nil
      is_lost = is_lost or not is_held
      held = held + (is_lost and is_held and 1 or 0)
    end
  until is_lost or wait.now() > ends
  for _, lock in ipairs(locks) do reasons[lock:wait_lost(0) or "held"] = true end
  return held, reasons
end

after_each(clients.close_all)

describe("regression 089: all holds of a client are lost at once", function()
  it("if their lease ends in etcd", function()
    local server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 6 })
    local locks = take_many(client)
    -- Five answers are changed, because the client ignores an answer that is late.
    server:extend("LeaseKeepAlive", protobuf.number(3, 0), 5)
    local held, reasons = held_after_a_loss(locks)
    assert.same({ 0, { revoked = true } }, { held, reasons })
  end)

  it("if another cluster answers", function()
    local etcd = Etcd.start()
    finally(function() etcd:stop() end)
    local client = clients.connector { endpoints = etcd:endpoint(), prefix = prefix, ttl = 60 } {}
    local locks = take_many(client)
    etcd:wipe(true)
    local asked = client._core:txn()
    asked:get "x"
    assert(asked:start(30))
    local held, reasons = held_after_a_loss(locks)
    assert.same({ 0, { cluster_changed = true } }, { held, reasons })
    clients.assert_fails("lost", locks[1]:put("x", "1"))
    clients.assert_fails("lost", locks[COUNT]:check())
  end)
end)
