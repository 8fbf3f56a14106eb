-- Tests that the functions of etcdlock.testing wait in an event loop without stopping it.
-- Needs: one plain member.

local PROGRAM = [[
local testing = require "etcdlock.testing"
testing.start { endpoints = endpoint, prefix = prefix, loop = loop ~= "" and loop or nil, ttl = 60 }
local another = assert(testing.connect())

go(function()
  spin(true)
  local lock = assert(client:lock "a")
  fails("timeout", another:lock("a", { timeout = 0.3 }))
  assert(testing.lose "a")
  equal("expired", lock:wait_lost(5))

  local before = ticks
  assert(testing.eventually(function() return ticks > before + 3 end))

  local runs, raised = 0, 0
  equal(8, assert(testing.each_failure(function()
    runs = runs + 1
    return assert(client:with_lock("b", { timeout = 5 }, function(held)
      local value = held:get(prefix .. "k")
      sleep(0.001)
      return held:put(prefix .. "k", tostring(value))
    end))
  end, function(ok) raised = raised + (ok and 0 or 1) return true end)))
  equal(9, runs)
  equal(5, raised) -- with_lock fails also if the hold is lost in its function

  fails("unavailable", testing.outage(function() return client:lock "b" end))
  fails("lost", testing.fail("client:lock", "lost", function() return client:lock "b" end))
  assert(assert(client:lock "b"):unlock())
  spin(false)
  another:close()
  testing.stop()
end)
run()
]]

for _, name in ipairs { "cqueues", "copas", "luv" } do
  local missing = loops.missing(name)
  if missing then
    pending(missing)
  else
    it("etcdlock.testing works in " .. name, loops.test(name, PROGRAM))
  end
end

after_each(function() suite.etcd():del_all "wait/" end)
