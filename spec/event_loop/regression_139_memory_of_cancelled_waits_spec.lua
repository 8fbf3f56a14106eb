-- Each lock_async that was cancelled kept 105 bytes until a later wait.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local connect = clients.connector { endpoints = suite.endpoints(), prefix = suite.prefix() }

after_each(clients.close_all)

it("regression 139: cancelled waits leave no memory", function()
  local client = connect()
  clients.keep(assert(client:lock "a"))
  local function cancel_many()
    for i = 1, 2000 do assert(client:lock_async("a", { owner = i })):cancel() end
    collectgarbage()
    collectgarbage()
    return collectgarbage "count"
  end
  cancel_many()
  local before = cancel_many()
  assert.is_true(cancel_many() - before < 20)
end)
