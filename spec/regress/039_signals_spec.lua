-- gRPC starts some of its threads with its first channel, not when it is set up: these had
-- the program's signals open. So a handler of the program's ran amid gRPC, and one that
-- blocks a signal to wait for it died of it.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local tasks = require "spec.support.programs.tasks"
local uv = require "luv"

local connect = clients.connector { endpoints = suite.endpoints() }

after_each(clients.close_all)

local SIGTERM = 2 ^ (uv.constants.SIGTERM - 1)

-- The names of our threads that a SIGTERM may come to, by number.
local function open_to_signals()
  local found = {}
  for number, status in pairs(tasks(uv.os_getpid(), "status")) do
    local blocked = tonumber(status:match "SigBlk:%s*%x*(%x%x%x%x)\n", 16)
    if math.floor(blocked / SIGTERM) % 2 == 0 then
      found[number] = status:match "Name:%s*(%C+)"
    end
  end
  return found
end

it("signals come to the program's own threads only", function()
  local before = open_to_signals()
  assert.is_string(before[uv.os_getpid()])
  local client = connect()
  assert(client:ping())
  assert(client:lock "a"):unlock()
  assert.same(before, open_to_signals())
end)
