-- Lua 5.1 and LuaJIT have no value for the main coroutine. With the option owner = "main", a caller
-- there was taken for the main coroutine: it shared the holds of the main coroutine instead of
-- waiting.
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"

it('regression 011: the owner "main" does not share a hold of the main coroutine', function()
  local child = proc.lua([[
    local endpoint, prefix = ...
    local client = assert(require("etcdlock").connect { endpoints = endpoint, prefix = prefix })
    local lock = assert(client:lock "a")
    print((select(3, client:try_lock("a", { owner = "main" }))))
    print(lock:count())
    client:close()
  ]], suite.endpoints(), suite.prefix())
  child:expect "^locked$"
  child:expect "^1$"
  child:wait()
end)
