-- Figures of measured times, for `make figures` and `make failover`.

local M = {}

-- Of a sorted list: what |percent| of them are no greater than.
function M.percentile(sorted, percent)
  return sorted[math.max(1, math.ceil(#sorted * percent / 100))]
end

-- Sorts |times| (ms) and tells of them in a line.
function M.summary(times)
  table.sort(times)
  return ("p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, max %.2f ms"):format(M.percentile(times, 50),
    M.percentile(times, 90), M.percentile(times, 99), times[#times])
end

return M
