-- Statistics of measured times and ratios, and how they are printed.

local M = {}

-- Returns the smallest value of the list |sorted| such that at least |percent| percent of the
-- values are not greater than it.
function M.percentile(sorted, percent)
  return sorted[math.max(1, math.ceil(#sorted * percent / 100))]
end

-- Returns { median, low, high } of |list|, in any order: the median, the least and the greatest
-- value.
function M.spread(list)
  local sorted = {}
  for i, value in ipairs(list) do sorted[i] = value end
  table.sort(sorted)
  local low, high = sorted[math.floor((#sorted + 1) / 2)], sorted[math.floor(#sorted / 2) + 1]
  return { median = (low + high) / 2, low = sorted[1], high = sorted[#sorted] }
end

-- Returns the spread of the quotients ours[i] / theirs[i], one for each round: what disturbs a
-- round then disturbs both sides. If both values are equal, also if both are 0, the quotient is 1.
function M.ratio(ours, theirs)
  local quotients = {}
  for i, value in ipairs(ours) do
    quotients[i] = value == theirs[i] and 1 or value / theirs[i]
  end
  return M.spread(quotients)
end

-- Returns |value| as text with about three digits.
function M.number(value)
  local form = value >= 100 and "%.0f" or value >= 10 and "%.1f" or value >= 0.1 and "%.2f"
    or "%.3f"
  return form:format(value)
end

-- Sorts |times| (ms). Returns their percentiles as text in one line.
function M.summary(times)
  table.sort(times)
  return ("p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, max %.2f ms"):format(M.percentile(times, 50),
    M.percentile(times, 90), M.percentile(times, 99), times[#times])
end

return M
