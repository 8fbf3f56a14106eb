-- If Lua collected a client together with an object whose finalizer refers to the client, every
-- later connect of the process raised "calling 'usable' on bad self (the object has been freed)".

local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"

it("regression 135: connect works after a client was collected with such an object", function()
  local child = proc.lua([[
    local etcdlock, opts = require "etcdlock", { endpoints = ..., env = false }
    local function drop()
      local client = assert(etcdlock.connect(opts))
      local object = setmetatable({ client = client }, {
        __gc = function(self) self.client = nil end,
      })
      object.lock = assert(client:try_lock "a")
    end
    drop()
    collectgarbage()
    print("connected", (etcdlock.connect(opts)))
    collectgarbage()
    print("connected", (etcdlock.connect(opts)))
  ]], suite.endpoint())
  finally(function() child:destroy() end)
  for _ = 1, 2 do child:expect "^connected\tetcdlock.client" end
  assert.equal(0, (child:wait()))
end)
