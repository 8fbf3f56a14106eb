-- The client treated a failed token request as an answer of etcd. So lock waited without end if the
-- client had a user and etcd was never reachable.
local proc = require "spec.support.programs.proc"
local wait = require "spec.support.harness.wait"

it('regression 003: lock with a user returns "unavailable" if etcd is unreachable', function()
  local child = proc.lua [[
    local client = assert(require("etcdlock").connect {
      endpoints = "127.0.0.1:1", user = "somebody", password = "secret", env = false,
    })
    print("answer", client:lock "a")
    client:close()
  ]]
  finally(function() child:destroy() end)
  local from = wait.now()
  assert.matches("Connection refused.*\tunavailable$", child:expect("^answer\tnil\t(.*)", 8))
  assert.is_true(wait.now() - from > 4, "that wasn't the wait for the first contact")
end)
