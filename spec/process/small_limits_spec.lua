-- Tests clients in a process with small stacks, little address space or no descriptor.
-- Needs: no sanitizer.

-- Regression 071. With little address space connect hung for ever, because a thread of gRPC could
-- not start. With stacks of 64 KiB the process crashed. A client without a free descriptor failed
-- with "UNKNOWN: ipv4:127.0.0.1:2379: Too many open files".

-- Runs |program| in a new Lua process with the limits that |set_limits|, a shell command, sets.
-- Returns its output, exit code and signal.
local function run(set_limits, program)
  local out, code, err, signal = proc.run({
    "sh", "-c", set_limits .. ' && exec "$@"', "sh", uv.exepath(), "-e", program,
  }, { env = proc.lua_environment(), seconds = 5 })
  return out .. err, code, signal
end

local CONNECT = ([[
  local client, message, code = require "etcdlock".connect { endpoints = %q, env = false }
  if client then
    client:lock("a", { timeout = 0.1 })
    client:close()
  end
  print(client and "connected" or "refused", message, code)
]])

it('connect with stacks of 64 KiB returns "nomem" and names the limit', function()
  local out, code, signal = run("ulimit -s 64", CONNECT:format(suite.endpoint()))
  assert.same({ 0, 0 }, { code, signal })
  assert.matches("^refused\t.* stacks of 256 KiB, .* 64 KiB .*ulimit %-s.*\tnomem\n$", out)
end)

it('connect with little address space works or returns "nomem"', function()
  for mebibytes = 100, 400, 20 do
    local out, code, signal = run(("ulimit -v %d"):format(mebibytes * 1024),
      CONNECT:format(suite.endpoint()))
    assert.same({ 0, 0 }, { code, signal }, mebibytes .. " MiB: " .. out)
    assert.is_truthy(out:find "^connected" or out:find "^refused\t.*\tnomem\n$", out)
  end
end)

it("a call without a free descriptor names the limit", function()
  local proxy = Swallow.start(suite.endpoint())
  local child = proc.lua([[
    local endpoint, prefix = ...
    local client = assert(require "etcdlock".connect {
      endpoints = endpoint, prefix = prefix, env = false,
    })
    local lock = assert(client:lock "a")
    print "ready"
    io.read()
    print("failed", client:lock("b", { timeout = 1 }))
    io.read()
    print("locked", client:lock("b", { timeout = 10 }))
    client:close()
  ]], proxy:endpoint(), prefix)
  -- Limits the child to |count| descriptors. Descriptors that are open already stay open.
  local function allow_descriptors(count)
    os.execute(("prlimit --pid %d --nofile=%d:"):format(child.pid, count))
  end
  child:expect "^ready"
  allow_descriptors(3)
  proxy:cut()
  child:send ""
  local message = child:expect "^failed\tnil\t(.*)\tunavailable"
  assert.matches("127.0.0.1:%d+: this process cannot open a socket %(ulimit %-n,", message)
  allow_descriptors(100)
  child:send ""
  child:expect "^locked\tetcdlock.lock"
  assert.equal(0, (child:wait()))
end)
