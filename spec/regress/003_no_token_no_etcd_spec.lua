-- That there was no token to be had passed for an answer of etcd, so a client
-- with a user waited for ever for one that never was there.
local proc = require "spec.support.programs.proc"
local wait = require "spec.support.harness.wait"

it("an etcd that isn't there is told in time to a client with a user, too", function()
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
