-- close of a client with several endpoints logged a failover, because it cancels the calls.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

it("regression 136: close of a client with two endpoints reports no failover", function()
  local events, endpoint = {}, suite.endpoint()
  local connect = clients.connector {
    endpoints = { endpoint, (endpoint:gsub("127%.0%.0%.1", "localhost")) }, prefix = suite.prefix(),
    log = function(event) events[#events + 1] = event.event end,
  }
  local client = connect()
  assert(client:lock "a"):unlock()
  client:close()
  assert.same({ "acquired", "released" }, events)
end)
