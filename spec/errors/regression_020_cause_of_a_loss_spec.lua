-- Two messages were wrong. When a hold was lost because its process had been stopped, the message
-- blamed etcd. Text from a server reached the terminal unchanged, with its escape sequences.

local clients = require "spec.support.harness.clients"
local error_rows = require "spec.support.harness.error_rows"
local remote = require "spec.support.programs.remote"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()

it("regression 020: unlock and check name a stopped process as cause of the loss", function()
  local opts = { endpoints = suite.endpoint(), prefix = prefix, ttl = 2 }
  local sleepers = { remote.start(opts, 2) }
  finally(function()
    for _, child in ipairs(sleepers) do child:destroy() end
  end)
  local asked = { "return lock:unlock()", "return lock:check()" }
  for i, child in ipairs(sleepers) do
    remote.take(child, "a" .. i)
    child:kill "sigstop"
  end
  etcd:await_keys(prefix, 0, 10)
  for i, child in ipairs(sleepers) do
    remote.send(child, asked[i])
    child:kill "sigcont"
    local results = remote.answer_of(child)
    assert.same({ "nil", "lost" }, { results[1], results[3] })
    local cause = "the lease was not proven alive in time: this process did not run for %d+%.%d s$"
    assert.matches(cause, results[2])
  end
end)

it("regression 020: control characters in a server's text are escaped", function()
  finally(clients.close_all)
  local server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix })
  server:answer("Txn", "before", error_rows.STATUS.PERMISSION_DENIED,
    "etcdserver: \27[31mred\27[0m \7 bell")
  local message = clients.assert_fails("denied", client:lock "a")
  assert.matches([[etcdserver: \x1b[31mred\x1b[0m \x07 bell]], message, 1, true)
end)
