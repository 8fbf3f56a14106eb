-- A waiter that read the queue of a semaphore read it again if a key was put or deleted meanwhile,
-- even if the read had shown that no key was in its way. On a slow line, beside clients that took
-- and released permits all the time, it was never granted the free permit.
-- Needs: one plain member.

local Swallow = require "spec.support.servers.swallow"
local clients = require "spec.support.harness.clients"
local remote = require "spec.support.programs.remote"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()

after_each(function()
  clients.close_all()
  etcd:del_all(prefix)
end)

it("regression 150: a waiter gets a free permit beside others that come and go", function()
  local proxy = Swallow.start(suite.endpoint())
  finally(function() proxy:stop() end)
  local options = { endpoints = suite.endpoint(), prefix = prefix, ttl = 30 }
  local first, second, third = remote.start(options, 3)
  for _, child in ipairs { first, second, third } do
    remote.ask(child, "semaphore = client:semaphore('a', 2)")
  end
  remote.ask(first, "lock = assert(semaphore:lock())")
  remote.ask(second, "lock = assert(semaphore:lock())")
  proxy:slow(0.15)
  local connect = clients.connector { prefix = prefix, ttl = 30 }
  local far = connect { endpoints = proxy:endpoint() }
  local pending = assert(assert(far:semaphore("a", 2)):lock_async())
  etcd:await_keys(prefix .. "a/", 3)
  remote.ask(first, "lock:unlock()") -- far's permit is free from now on
  local busy = [[
    lock = lock and lock:unlock() and nil
    local ends = os.time() + 7
    while os.time() < ends do assert(semaphore:lock()):unlock() end
  ]]
  local from = wait.now()
  for _, child in ipairs { second, third } do remote.send(child, busy) end
  clients.keep((clients.granted(pending)))
  assert.is_true(wait.now() - from < 5, "granted while the others are busy")
  for _, child in ipairs { second, third } do remote.answer_of(child, 60) end
  for _, child in ipairs { first, second, third } do remote.ask(child, "client:close()") end
end)
