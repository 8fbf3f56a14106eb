--- The last successful runs of jobs: their list, for etcdlock ls --runs (ls.lua describes the
-- functions).
local json = require "etcdlock.json"
local report = require "etcdlock.command.report"

local M = {}

local HEAD = { "NAME", "ENDED", "AGE", "TOOK", "HOST", "PID" }
local IS_NUMBER = { [3] = true, [4] = true, [6] = true }

function M.read(client, prefix)
  return client:runs(prefix)
end

function M.format_lines(runs, prefix, screen)
  local rows, now = {}, os.time()
  for i, run in ipairs(runs) do
    rows[i] = {
      report.format_name(run.name),
      os.date("%Y-%m-%d %H:%M:%S", run.ended),
      report.format_duration(now - run.ended),
      run.seconds and report.format_duration(run.seconds) or report.NOTHING,
      run.host,
      ("%.0f"):format(run.pid),
    }
  end
  if not rows[1] then
    return { report.format_nothing("No run%s is recorded.", prefix, screen) }
  end
  return report.format_table(HEAD, rows, IS_NUMBER, screen)
end

-- If the table is too wide for the screen, the column NAME is cut.
M.narrow = { { 1, 12 } }

function M.format_summary(runs)
  return ("%s  %d run%s"):format(os.date "%H:%M:%S", #runs, #runs == 1 and "" or "s")
end

-- The JSON is a list of the runs that client:runs returns.
function M.format_json(runs)
  local parts = {}
  for i, run in ipairs(runs) do
    parts[i] = json.encode(run)
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

return M
