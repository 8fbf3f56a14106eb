-- If locks below the name of a free lock came and went all the time, try_lock of the free lock
-- failed, because each of its reads found keys that were newer than the previous read.

local clients = require "spec.support.harness.clients"
local loops = require "spec.support.programs.loops"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"

local prefix = suite.prefix()

-- Takes and releases 150 locks below "jobs" without a pause.
local BUSY = [[
  local endpoint, prefix = ...
  local cqueues = require "cqueues"
  local client = assert(require("etcdlock").connect { endpoints = endpoint, prefix = prefix })
  local controller = cqueues.new()
  for i = 1, 150 do
    controller:wrap(function()
      while true do assert(client:lock("jobs/" .. i)):unlock() end
    end)
  end
  controller:wrap(function()
    while client:stats().acquired < 150 do cqueues.sleep(0.01) end
    print "busy"
  end)
  assert(controller:loop())
]]

it("regression 016: try_lock takes a free lock while 150 locks below it come and go", function()
  local missing = loops.missing "cqueues"
  if missing then return pending(missing) end
  local child = proc.lua(BUSY, suite.endpoint(), prefix)
  finally(function()
    child:destroy()
    clients.close_all()
  end)
  child:expect("^busy", 20)
  local client = clients.connector { endpoints = suite.endpoint(), prefix = prefix } ()
  for _ = 1, 20 do
    local lock = clients.keep(assert(client:try_lock "jobs"))
    clients.assert_fails("locked", client:try_lock("jobs", { owner = "another" }))
    assert.is_true(lock:unlock())
  end
end)
