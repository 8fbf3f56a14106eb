--- The last successful runs of jobs: their list, for etcdlock ls --runs (ls.lua describes the
-- functions).
local json = require "etcdlock.json"
local report = require "etcdlock.command.report"

local M = {}

M.head = { "NAME", "ENDED", "AGE", "TOOK", "HOST", "PID" }
M.is_number = { [3] = true, [4] = true, [6] = true }
M.nothing = "No run%s is recorded."

function M.read(client, prefix)
  return client:runs(prefix)
end

function M.format_rows(runs)
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
  return rows
end

-- If the table is too wide for the screen, the column NAME is cut.
M.narrow = { { 1, 12 } }

function M.format_summary(runs)
  return ("%s  %d run%s"):format(os.date "%H:%M:%S", #runs, #runs == 1 and "" or "s")
end

M.format_json = json.encode

return M
