-- Each held lock took a third more memory on Lua's heap, because the table of its options had 18
-- fields. A Lua table with more than 16 fields has room for 32.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local connect = clients.connector { endpoints = suite.endpoint(), prefix = suite.prefix() }
local COUNT = 200
-- Bytes. The tables of other Lua versions are larger.
local LIMIT = _VERSION == "Lua 5.4" and 1400 or rawget(_G, "jit") and 1650 or 2000

after_each(clients.close_all)

it("regression 126: a held lock takes at most 1,400 bytes on the heap of Lua 5.4", function()
  local client, locks = connect(), {}
  for i = 1, COUNT do locks[i] = false end
  assert(client:lock "warm"):unlock()
  collectgarbage()
  collectgarbage()
  local before = collectgarbage "count"
  for i = 1, COUNT do locks[i] = assert(client:lock("held/" .. i)) end
  collectgarbage()
  collectgarbage()
  local bytes = (collectgarbage "count" - before) * 1024 / COUNT
  assert.is_true(bytes <= LIMIT, bytes)
  for i = 1, COUNT do assert(locks[i]:unlock()) end
end)
