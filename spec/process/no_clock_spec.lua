-- Tests a process that cannot read CLOCK_BOOTTIME, as in some sandboxes.
-- Needs: one plain member, no sanitizer.

-- Regression 247. Time stood still then: a wait with a timeout did not end, and no hold expired.
local PROGRAM = [[
  local file = ...
  local client, message, code = require "etcdlock".connect { endpoints = %q, env = false, ttl = 2,
    log = function() end }
  if not client then return print(code, message) end
  local lock = assert(client:lock "a")
  assert(io.open(file, "w")):close()
  print("held", (lock:held()))
  print("waited", (select(3, client:lock("b", { timeout = 1 }))))
  client:close()
]]

-- Runs PROGRAM, which makes |file| as soon as it holds its lock. While |file| exists, there is no
-- clock.
local function run(file)
  local env = proc.lua_environment()
  env.LD_PRELOAD, env.NO_CLOCK = "build/spec/machine.so", file
  local out, code, err = proc.run({
    uv.exepath(), "-e", "arg = {}", "-e",
    ("(loadstring or load)(%q)(%q)"):format(PROGRAM:format(suite.endpoint()), file),
  }, { env = env, seconds = 20 })
  assert.same({ 0, "" }, { code, err }, out)
  return out
end

local file

before_each(function() file = os.tmpname() end)

after_each(function() os.remove(file) end)

it("connect fails without the clock, and names it", function()
  assert.matches("^invalid\t.*CLOCK_BOOTTIME: Invalid argument; some sandboxes lack it\n$",
    run(file))
end)

it("holds and waits end if the clock is gone later", function()
  os.remove(file)
  assert.matches("^held\tfalse\nwaited\t%l+\n$", run(file))
end)
