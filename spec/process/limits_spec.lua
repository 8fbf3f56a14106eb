-- Tests connect in a process with few descriptors or threads.

-- Regression 018. If no thread could be started, connect hung for ever; with only three free
-- descriptors, it crashed the process.

-- Runs |program| in a process of its own, which can lower its limits; returns the process.
local function run(program)
  return proc.lua([[
    local endpoints, prefix = ...
    local uv = require "luv"
    local function limit(option, value)
      os.execute(("prlimit --pid %d --%s=%d:"):format(uv.os_getpid(), option, value))
    end
    local function connect()
      return require("etcdlock").connect { endpoints = endpoints, prefix = prefix }
    end
    require("etcdlock")
  ]] .. program, suite.endpoints(), prefix)
end

describe("connect", function()
  it('returns "nomem" with fewer than 8 free descriptors, and works with 8', function()
    local child = run [[
      local first, left = uv.fs_open("/dev/null", "r", 0), 0
      local client, message, code
      repeat
        limit("nofile", first + left)
        client, message, code = connect()
        if not client then print("refused", message, code) end
        left = left + 1
      until client
      print("connected", client:lock("limits", { timeout = 10 }))
      assert(client:ping())
      client:close()
    ]]
    local free
    repeat
      local message = child:expect "^refused\t(.*)\tnomem$"
      free = message:match "needs 8 free descriptors, but only (%d) can be opened:"
      assert.is_string(free, message)
      assert.matches("RLIMIT_NOFILE", message, 1, true)
    until free == "7"
    child:expect "^connected\tetcdlock.lock"
    assert.equal(0, (child:wait()))
  end)

  it('returns "nomem" and the number of threads that it needs if they cannot start', function()
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
    assert.matches("needs 11 threads, but only %d+ can be started", message)
    assert.matches("pids.max", message, 1, true)
    child:expect "^connected\tetcdlock.lock"
  end)
end)
