-- The clock of all deadlines: nobody can set it, and it goes on while the machine
-- sleeps.

local core = require "etcdlock.core"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local uv = require "luv"

local DAY = 86400

describe("the clock", function()
  it("counts from when the machine was started", function()
    local before = tonumber(assert(read_file "/proc/uptime"):match "%S+")
    local now = core.now()
    local after = tonumber(assert(read_file "/proc/uptime"):match "%S+")
    assert.is_true(before - 0.02 <= now and now <= after + 0.02, now .. " in " .. after)
  end)

  -- To a time namespace a machine can be shown that has slept for a day.
  it("counts the time that the machine has slept", function()
    local argv = { "unshare", "--time", "--boottime", tostring(DAY), "--fork", uv.exepath(),
      "spec/support/programs/child.lua", "print(require('etcdlock.core').now())" }
    local out, code, err = proc.run(argv, { env = proc.lua_environment() })
    if code ~= 0 and err:find "^unshare: " then
      return pending "this needs the right to make a time namespace"
    end
    assert.equal(0, code, err)
    local slept = tonumber(out) - core.now()
    assert.is_true(math.abs(slept - DAY) < 5, out)
  end)
end)
