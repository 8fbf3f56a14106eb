-- Where no thread could be started, connect hung for ever; with three descriptors left
-- it took the whole process with it.

local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"

-- Runs |program| in a process of its own, which can narrow its limits, and returns
-- what it prints.
local function run(program)
  local child = proc.lua([[
    local endpoint = ...
    local uv = require "luv"
    local function limit(option, value)
      os.execute(("prlimit --pid %d --%s=%d:"):format(uv.os_getpid(), option, value))
    end
    local function connect()
      return require("etcdlock").connect { endpoints = endpoint }
    end
    require("etcdlock")
  ]] .. program, suite.endpoint())
  finally(function() child:destroy() end)
  return child
end

describe("connect answers nomem with the limit's name", function()
  it("where there are few descriptors left, and works with some more", function()
    local child = run [[
      local first = uv.fs_open("/dev/null", "r", 0)
      for left = 0, 7 do
        limit("nofile", first + left)
        print("refused", connect())
      end
      limit("nofile", first + 16)
      local client = assert(connect())
      print("connected", client:lock "limits")
      client:close()
    ]]
    for _ = 0, 7 do
      local message = child:expect "^refused\tnil\t(.*)\tnomem$"
      assert.matches("needs 8 free descriptors, and there are %d", message)
      assert.matches("RLIMIT_NOFILE", message, 1, true)
    end
    child:expect "^connected\tetcdlock.lock"
  end)

  it("where no threads can be started", function()
    if os.getenv "ASAN_OPTIONS" or os.getenv "TSAN_OPTIONS" then
      return pending "sanitizers need all the address space"
    end
    local child = run [[
      local size = tonumber(io.open("/proc/self/statm"):read "*n") * 4096
      limit("as", size + 20 * 1024 * 1024)
      print("refused", connect())
      os.execute(("prlimit --pid %d --as=unlimited"):format(uv.os_getpid()))
      local client = assert(connect())
      print("connected", client:lock "limits")
      client:close()
    ]]
    local message = child:expect "^refused\tnil\t(.*)\tnomem$"
    assert.matches("needs 11 threads, and %d+ can be started", message)
    assert.matches("pids.max", message, 1, true)
    child:expect "^connected\tetcdlock.lock"
  end)
end)
