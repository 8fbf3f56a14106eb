-- Tests a client in a program that has no free descriptor.
-- Needs: no sanitizer, cqueues.

-- Regression 113. etcdlock loaded the modules of the metrics and of event loops at their first use.
-- If no descriptor was free then, client:metrics, join_metrics and a lock call in luv raised an
-- error about a missing module.

-- Runs |code| in a program that has a client and no free descriptor. Returns the output. |connect|:
-- the Lua code with which the program connects (nil: a plain call).
local function run(code, connect)
  local program = ([[
    local etcdlock, uv = require "etcdlock", require "luv"
    local client
    local function connect()
      client = assert(etcdlock.connect { endpoints = %q, env = false, loop = "luv" })
    end
    %s
    local files = {}
    while true do
      local file = io.open "/dev/null"
      if not file then break end
      files[#files + 1] = file
    end
    %s
    os.exit(0)
  ]]):format(suite.endpoint(), connect or "connect()", code)
  local out, status, err = proc.run({
    "sh", "-c", 'ulimit -n 60 && exec "$@"', "sh", uv.exepath(), "-e", program,
  }, { env = proc.lua_environment() })
  assert.equal(0, status, err)
  return out
end

it("client:metrics and join_metrics need no free descriptor", function()
  assert.equal("true\n", run [[
    local page = assert(client:metrics())
    print(etcdlock.join_metrics { page } == page)
  ]])
end)

it("a lock call in luv fails without a free descriptor, and does not raise",
  function()
    assert.matches("^true\tnil\t", run [[
      coroutine.wrap(function() print(pcall(client.lock, client, "x", { timeout = 0.5 })) end)()
      uv.run()
    ]])
  end)

it("a lock call in luv does not raise if the client was made in cqueues",
  function()
    assert.matches("^true\tnil\t", run([[
      coroutine.wrap(function() print(pcall(client.lock, client, "x", { timeout = 0.5 })) end)()
      uv.run()
    ]], [[
      assert(require "cqueues".new():wrap(connect):loop())
    ]]))
  end)
