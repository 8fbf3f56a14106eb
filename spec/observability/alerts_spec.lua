-- Tests the alerts and the dashboard of examples/prometheus by promtool, which `make check-all`
-- installs. metrics_spec.lua tests that they use no unknown metric.

local PROMTOOL = "/usr/bin/promtool"
local RULES, TESTS = "examples/prometheus/alerts.yml", "spec/observability/alerts_test.yml"
local DASHBOARD = "examples/prometheus/dashboard.json"

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

it("each alert has a severity", function()
  local _, alerts = read_file(RULES):gsub("\n *%- alert:", "")
  local _, severities = read_file(RULES):gsub("\n +labels: { severity: (%l+) }", "")
  assert.equal(alerts, severities)
end)

-- Returns the queries of the dashboard, with values in place of Grafana's variables.
local function queries()
  local list = {}
  for _, panel in ipairs(assert(json.decode(read_file(DASHBOARD))).panels) do
    for _, target in ipairs(panel.targets or {}) do
      list[#list + 1] = target.expr:gsub("%$__rate_interval", "5m"):gsub("%$lock", "(a|b)")
    end
  end
  return list
end

it_with_promtool("the queries of the dashboard are valid", function()
  local lines = { "groups: [{ name: dashboard, rules: [" }
  for i, query in ipairs(queries()) do
    assert.is_nil(query:find("$", 1, true), query)
    lines[#lines + 1] = ("  { record: 'query:%d', expr: '%s' },"):format(i, query)
  end
  assert.is_true(#lines > 15)
  lines[#lines + 1] = "]}]\n"
  local path = temporary.directory() .. "/queries.yml"
  write_file(path, table.concat(lines, "\n"))
  promtool("check", "rules", path)
end)
