-- Tests the alerts of examples/prometheus/alerts.yml by promtool, which `make check-all` installs.

local PROMTOOL = "/usr/bin/promtool"
local RULES, TESTS = "examples/prometheus/alerts.yml", "spec/observability/alerts_test.yml"

local it_with_promtool = uv.fs_stat(PROMTOOL) and it or pending

local function promtool(...)
  local out, code, err = proc.run { PROMTOOL, ... }
  assert.equal(0, code, out .. err)
end

-- Regression 172. The alert "a lock hangs" fired only if no lock call of the process succeeded.
it_with_promtool("the alerts fire for a hanging wait or hold, not for busy or idle processes",
  function()
    promtool("check", "rules", RULES)
    promtool("test", "rules", TESTS)
  end)
