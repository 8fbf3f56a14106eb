-- On Lua 5.1 and LuaJIT, where the main coroutine has no name of its own, somebody
-- who called himself "main" was let into its locks.
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"

it("is not the main coroutine", function()
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
