-- What the flash sale prints.

local uv = require "luv"

local M = {}

local IS_TERMINAL = uv.guess_handle(1) == "tty"

--- How far a sale is: one line that is written anew on a terminal, else five lines.
function M.progress(title, result, customers)
  local step = IS_TERMINAL and 10 or math.ceil(customers / 5)
  if result.answered % step ~= 0 and result.answered ~= customers then
    return
  end
  local line = ("%-16s  %d of %d served, %d sold"):format(title, result.answered, customers,
    result.sold)
  if IS_TERMINAL then
    io.write("\r", line, "\27[K", result.answered == customers and "\n" or "")
  else
    io.write(line, "\n")
  end
  io.stdout:flush()
end

local function percentile(sorted, share)
  return ("%.0f ms"):format(sorted[math.ceil(#sorted * share)])
end

local function column(result, items)
  table.sort(result.latencies)
  return {
    result.sold,
    result.sold_out,
    math.max(0, result.sold - items),
    result.errors,
    result.left,
    ("%.2f s"):format(result.seconds),
    ("%.0f"):format(result.answered / result.seconds),
    percentile(result.latencies, 0.50),
    percentile(result.latencies, 0.99),
  }
end

local ROWS = {
  'told "sold"',
  'told "sold out"',
  "oversold",
  "errors",
  "left in the stock file",
  "time",
  "requests per second",
  "latency p50",
  "latency p99",
}

--- Both sales side by side.
function M.table(unlocked, locked, items)
  local left, right = column(unlocked, items), column(locked, items)
  local form = "  %-24s%18s%16s"
  print("\n" .. form:format("", "without the lock", "with the lock"))
  for i, row in ipairs(ROWS) do
    print(form:format(row, left[i], right[i]))
  end
  print()
  for _, result in ipairs { unlocked, locked } do
    if result.first_error then
      print("The first error: " .. result.first_error)
    end
  end
end

return M
