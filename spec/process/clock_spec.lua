-- Tests that the clock of all deadlines counts from boot, and includes the time for which the
-- machine sleeps.
-- Needs: one plain member.

local DAY = 86400

describe("the clock", function()
  it("returns the seconds since boot", function()
    local before = tonumber(assert(read_file "/proc/uptime"):match "%S+")
    local now = core.now()
    local after = tonumber(assert(read_file "/proc/uptime"):match "%S+")
    assert.is_true(before - 0.02 <= now and now <= after + 0.02, now .. " in " .. after)
  end)

  -- In a time namespace, the machine can appear to have slept for a day.
  it("includes the time for which the machine has slept", function()
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
