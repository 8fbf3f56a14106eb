-- Statistics of measured values, and how they are printed.

local M = {}

--- Returns a table: `low`, `high` and `median` of the list |values|. If |percent| is given and not
-- 50, `median` is the smallest value that at least |percent| percent of the values do not exceed.
function M.spread(values, percent)
  local sorted = {}
  for i, value in ipairs(values) do sorted[i] = value end
  table.sort(sorted)
  local low, high = sorted[math.floor((#sorted + 1) / 2)], sorted[math.floor(#sorted / 2) + 1]
  local median = sorted[1] and (low + high) / 2
  if percent and percent ~= 50 then
    median = sorted[math.max(1, math.ceil(#sorted * percent / 100))]
  end
  return { median = median, low = sorted[1], high = sorted[#sorted] }
end

--- Returns the spread of the quotients ours[i] / theirs[i], one for each round: what disturbs a
-- round then disturbs both sides. If both values are equal, also if both are 0, the quotient is 1.
function M.ratio(ours, theirs)
  local quotients = {}
  for i, value in ipairs(ours) do
    quotients[i] = value == theirs[i] and 1 or value / theirs[i]
  end
  return M.spread(quotients)
end

--- Returns |value| as text: below 100 with at most three significant digits, else as a whole number
-- with commas.
function M.number(value)
  local form = value >= 100 and "%.0f" or value >= 10 and "%.1f" or value >= 0.1 and "%.2f"
    or "%.3f"
  local text = form:format(value)
  while value >= 1000 and text:find "^%d%d%d%d" do text = text:gsub("^(%d+)(%d%d%d)", "%1,%2") end
  return text
end

return M
