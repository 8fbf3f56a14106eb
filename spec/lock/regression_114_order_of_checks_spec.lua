-- Values of options were checked in the order of a hash table, which differs from run to run. If
-- several values were not allowed, the message named now one option and now another.

local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"

local RUNS = 12

it("regression 114: connect and lock name the same wrong value in each run", function()
  local program = ([[
    local etcdlock = require "etcdlock"
    local _, message = etcdlock.connect {
      env = false, ttl = 1, timeout = -1, handoff = 0, handoff_time = 100, log_rate = -1, cert = "",
    }
    local client = assert(etcdlock.connect { endpoints = %q, env = false })
    local _, lock_message = client:lock("a", {
      timeout = -1, max_hold = 0, linger = -1, value = ("x"):rep(5000),
    })
    print(message .. "\n" .. lock_message)
  ]]):format(suite.endpoint())
  local first
  for _ = 1, RUNS do
    local child = proc.lua(program)
    assert.equal(0, child:wait(), child:errors())
    first = first or child.out.text
    assert.equal(first, child.out.text)
  end
end)
