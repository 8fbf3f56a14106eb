-- Figures of what was measured: of times, and of how many times as fast one was as
-- another.

local M = {}

-- Of a sorted list: what |percent| of them are no greater than.
function M.percentile(sorted, percent)
  return sorted[math.max(1, math.ceil(#sorted * percent / 100))]
end

-- Of a list in any order: its median, least and greatest.
function M.spread(list)
  local sorted = {}
  for i, value in ipairs(list) do sorted[i] = value end
  table.sort(sorted)
  local low, high = sorted[math.floor((#sorted + 1) / 2)], sorted[math.floor(#sorted / 2) + 1]
  return { median = (low + high) / 2, low = sorted[1], high = sorted[#sorted] }
end

-- The spread of the quotients of two lists, round by round: what disturbs a round
-- disturbs both. Two zeros are as good as each other.
function M.ratio(ours, theirs)
  local quotients = {}
  for i, value in ipairs(ours) do
    quotients[i] = value == theirs[i] and 1 or value / theirs[i]
  end
  return M.spread(quotients)
end

-- In about three digits.
function M.number(value)
  local form = value >= 100 and "%.0f" or value >= 10 and "%.1f" or value >= 0.1 and "%.2f"
    or "%.3f"
  return form:format(value)
end

-- Sorts |times| (ms) and tells of them in a line.
function M.summary(times)
  table.sort(times)
  return ("p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, max %.2f ms"):format(M.percentile(times, 50),
    M.percentile(times, 90), M.percentile(times, 99), times[#times])
end

return M
