-- What the flash sale prints: in colour, and with bars, on a terminal.

local uv = require "luv"

local M = {}

local IS_TERMINAL = uv.guess_handle(1) == "tty" and os.getenv "TERM" ~= "dumb"
local HAS_COLOUR = IS_TERMINAL and (os.getenv "NO_COLOR" or "") == "" -- no-color.org
local LOCALE = os.getenv "LC_ALL" or os.getenv "LC_CTYPE" or os.getenv "LANG" or ""
local FULL, EMPTY = "#", "."
if LOCALE:lower():find "utf%-?8" then FULL, EMPTY = "█", "░" end

local GREEN, RED, BOLD = "32", "31", "1"
local BAR = 18 -- columns, so that both and their words are in 80

local function painted(colour, text)
  return HAS_COLOUR and text ~= "" and ("\27[%sm%s\27[m"):format(colour, text) or text
end

-- |count| of |all|; what is above |limit| is red.
local function bar(count, all, limit)
  local function columns(n) return math.floor(BAR * math.min(n, all) / all + 0.5) end
  local good, bad = columns(math.min(count, limit)), columns(count)
  return painted(GREEN, FULL:rep(good)) .. painted(RED, FULL:rep(bad - good))
    .. EMPTY:rep(BAR - bad)
end

--- How far a sale is: two bars that fill on a terminal, else five lines.
function M.progress(title, result, customers, items)
  local step = IS_TERMINAL and 5 or math.ceil(customers / 5)
  if result.answered % step ~= 0 and result.answered ~= customers then
    return
  end
  if IS_TERMINAL then
    io.write(("\r%-17s %s %3d served  %s %3d sold\27[K%s"):format(title,
      bar(result.answered, customers, customers), result.answered,
      bar(result.sold, customers, items), result.sold, result.answered == customers and "\n" or ""))
  else
    io.write(("%-17s  %d of %d served, %d sold\n"):format(title, result.answered, customers,
      result.sold))
  end
  io.stdout:flush()
end

--- What goes wrong without a lock, once, by name.
function M.slip(result)
  local slip = result.slip
  if slip then
    local text = '  Workers %d and %d both read "%d left", and both sold that one.'
    print(painted(RED, text:format(slip.pids[1], slip.pids[2], slip.number)))
  end
end

--- That a holder was killed, and when the next one had the lock.
function M.takeover(result, ttl)
  local text = "  kill -9 of worker %d, which held it. %.1f s later the next one has it (TTL %g s)."
  print(painted(RED, text:format(result.killed_pid, result.takeover, ttl)))
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

--- The sales side by side.
function M.table(items, unlocked, locked, killed)
  local results, columns = { unlocked, locked, killed }, {}
  for i, result in ipairs(results) do columns[i] = column(result, items) end
  local form = "  %-24s%18s%16s%18s"
  print("\n" .. painted(BOLD, form:format("", "without the lock", "with the lock",
    "its holder killed")))
  for i, row in ipairs(ROWS) do
    print(form:format(row, columns[1][i], columns[2][i], columns[3][i]))
  end
  print()
  for _, result in ipairs(results) do
    if result.first_error then
      print("The first error: " .. result.first_error)
    end
  end
end

--- Whether it went as it should.
function M.verdict(is_right, text)
  print(painted(is_right and GREEN or RED, text))
end

--- The line of |file| that oversells, and the one that doesn't.
function M.difference(file)
  print "\nThe difference, in examples/flash_sale/shop.lua:\n"
  for line in io.lines(file) do
    local code = line:match "^ *(.-) *%-%- oversells$"
    if code then print(painted(RED, "  - " .. code)) end
    code = line:match "^ *(.-) *%-%- doesn't$"
    if code then print(painted(GREEN, "  + " .. code)) end
  end
end

return M
