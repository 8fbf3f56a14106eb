-- Tests connect on a machine with many cores and few threads.
-- Needs: one plain member, no sanitizer.

-- Regression 134. gRPC starts a thread for each core. On a machine with many cores and a small
-- limit of threads, connect hung for ever.
local CONNECT = ([[
  local client, message, code = require "etcdlock".connect { endpoints = %q, env = false }
  if client then
    print("locked", assert(client:lock "a"):unlock())
    client:close()
  else
    print(code, message)
  end
]])

for _, cores in ipairs { 1, 8, 16, 64 } do
  it(("connect with %d cores works or returns nomem, with any limit of threads")
    :format(cores), function()
    local needed = 9 + math.max(2, math.min(32, cores))
    for limit = 12, 44, 8 do
      local env = proc.lua_environment()
      env.LD_PRELOAD = "build/spec/machine.so"
      env.CORES, env.THREADS = tostring(cores), tostring(limit)
      local out, code, err = proc.run({ uv.exepath(), "-e", CONNECT:format(suite.endpoint()) },
        { env = env, seconds = 8 })
      assert.same({ 0, "" }, { code, err }, out)
      local place = ("%d threads: %s"):format(limit, out)
      if limit > needed then
        assert.equal("locked\ttrue\n", out, place)
      else
        local message = ("^nomem\ta client needs %d threads, but only %d can be started")
        assert.matches(message:format(needed, limit - 1), out, place)
      end
    end
  end)
end
