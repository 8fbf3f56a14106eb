-- Prints the output of the flash sale. On a terminal (unless TERM is dumb) it prints bars, and
-- colours unless NO_COLOR has a value. Elsewhere it prints plain lines.

local uv = require "luv"

local M = {}

local IS_TERMINAL = uv.guess_handle(1) == "tty" and os.getenv "TERM" ~= "dumb"
local HAS_COLOUR = IS_TERMINAL and (os.getenv "NO_COLOR" or "") == "" -- no-color.org
local LOCALE = os.getenv "LC_ALL" or os.getenv "LC_CTYPE" or os.getenv "LANG" or ""
local FULL, EMPTY = "#", "."
if LOCALE:lower():find "utf%-?8" then FULL, EMPTY = "█", "░" end

local GREEN, RED, BOLD = "32", "31", "1"

--- The titles of the sales, for M.progress and M.table.
M.WITHOUT, M.WITH, M.KILLED = "without lock", "with lock", "holder killed"
local TITLE = #M.KILLED

local function painted(colour, text)
  return HAS_COLOUR and text ~= "" and ("\27[%sm%s\27[m"):format(colour, text) or text
end

-- ---- progress -----------------------------------------------------------------

-- Returns the columns of the terminal; 80 if the terminal does not report its size.
local function terminal_width()
  local stty = io.popen "stty -F /dev/tty size 2>/dev/null"
  local width = tonumber((stty:read "*a" or ""):match "%d+ (%d+)")
  stty:close()
  return width and width > 0 and width or 80
end

local WIDTH = IS_TERMINAL and terminal_width()
local WORDS = #(" " .. " " .. " served  " .. " " .. " sold") + 1 -- the last column stays free
local LONGEST_BAR = 18

-- Returns the columns of one bar. A line has two bars of equal width, which share the columns that
-- the text of the line leaves. `digits`: the width of each of the two numbers in the text.
local function bar_width(digits)
  return math.max(0, math.min(LONGEST_BAR, math.floor((WIDTH - TITLE - WORDS - 2 * digits) / 2)))
end

-- Returns a bar of `width` columns that shows `count` of `all`. The part above `limit` is red.
local function bar(width, count, all, limit)
  local function columns(n) return math.floor(width * math.min(n, all) / all + 0.5) end
  local good, bad = columns(math.min(count, limit)), columns(count)
  return painted(GREEN, FULL:rep(good)) .. painted(RED, FULL:rep(bad - good))
    .. EMPTY:rep(width - bad)
end

--- Prints the progress of a sale: on a terminal as two bars, elsewhere as a line after each fifth
-- of the answers. The caller calls it when the sale begins, and after each answer. It uses the
-- fields title, answered and sold of `result`.
function M.progress(result, customers, items)
  local answered, is_end = result.answered, result.answered == customers
  local step = IS_TERMINAL and 5 or math.ceil(customers / 5)
  if not is_end and (answered % step ~= 0 or answered == 0 and not IS_TERMINAL) then
    return
  end
  if IS_TERMINAL then
    local digits = #tostring(customers)
    local width, number = bar_width(digits), "%" .. digits .. "d"
    io.write(("\r%-" .. TITLE .. "s %s " .. number .. " served  %s " .. number .. " sold\27[K%s")
      :format(result.title, bar(width, answered, customers, customers), answered,
        bar(width, result.sold, customers, items), result.sold, is_end and "\n" or ""))
  else
    io.write(("%-" .. TITLE .. "s  %d of %d served, %d sold\n"):format(result.title, answered,
      customers, result.sold))
  end
  io.stdout:flush()
end

--- Prints a fact about the sale whose progress was printed last.
function M.note(text)
  print(painted(RED, "  " .. text))
end

-- ---- the table ----------------------------------------------------------------

-- Returns a function for a row of the table. That function returns, as text, a percentile of the
-- milliseconds in the field `field` of a result. `form` is the format of the number.
local function percentile(field, share, form)
  return function(result)
    local sorted = result[field]
    table.sort(sorted)
    return (form .. " ms"):format(sorted[math.max(1, math.ceil(#sorted * share))])
  end
end

local ROWS = {
  { 'told "sold"', function(result) return result.sold end },
  { 'told "sold out"', function(result) return result.sold_out end },
  { "oversold", function(result, items) return math.max(0, result.sold - items) end },
  { "errors", function(result) return result.errors end },
  { "left in stock", function(result) return result.left end },
  { "time", function(result) return ("%.2f s"):format(result.seconds) end },
  { "requests/s", function(result) return ("%.0f"):format(result.answered / result.seconds) end },
  { "latency p50", percentile("latencies", 0.50, "%.0f") },
  { "latency p99", percentile("latencies", 0.99, "%.0f") },
}
local PING_ROWS = { -- if there were pings
  { "/ping requests", function(result) return #result.pings end },
  { "/ping p50", percentile("pings", 0.50, "%.1f") },
  { "/ping p99", percentile("pings", 0.99, "%.1f") },
}

-- Prints `lines`, each a list of words, as a table. Each column is as wide as its longest word. The
-- first line is the heading.
local function print_columns(lines)
  local widths = {}
  for _, line in ipairs(lines) do
    for i, word in ipairs(line) do widths[i] = math.max(widths[i] or 0, #word) end
  end
  for number, line in ipairs(lines) do
    local text = "  " .. line[1] .. (" "):rep(widths[1] - #line[1])
    for i = 2, #line do
      text = text .. (" "):rep(2 + widths[i] - #line[i]) .. line[i]
    end
    print(number == 1 and painted(BOLD, text) or text)
  end
end

--- Prints a table with a column for each sale. Each of `results` has the fields that ROWS and
-- PING_ROWS use.
function M.table(items, results)
  local lines = { { "" } }
  for _, result in ipairs(results) do table.insert(lines[1], result.title) end
  for _, rows in ipairs { ROWS, results[1].pings[1] and PING_ROWS } do
    for _, row in ipairs(rows) do
      local line = { row[1] }
      for _, result in ipairs(results) do
        line[#line + 1] = tostring(row[2](result, items))
      end
      lines[#lines + 1] = line
    end
  end
  print()
  print_columns(lines)
  print()
end

-- ---- the end ------------------------------------------------------------------

local function outcome(result, customers, items)
  local sold, taken = math.min(items, customers), items - result.left
  -- A customer that got an error may have bought an item all the same.
  if result.slip or result.sold > taken or taken > result.sold + result.errors then
    return "wrong"
  elseif result.errors > 0 then
    return "errors"
  end
  return result.sold == sold and result.sold_out == customers - sold and "right" or "wrong"
end

--- Prints the conclusion from the sales: `unlocked` is the result of the sale without the lock,
-- `locked` is the list of the results with the lock. Returns true if all sales with the lock sold
-- the right number of items, none of them twice, without an error.
function M.verdict(customers, items, unlocked, locked)
  if unlocked.sold > items then
    print(painted(RED, ("Without the lock, %d items too many were sold."):format(
      unlocked.sold - items)))
  end
  local count = { right = 0, errors = 0, wrong = 0 }
  for _, result in ipairs(locked) do
    local kind = outcome(result, customers, items)
    count[kind] = count[kind] + 1
  end
  local is_right = count.right == #locked
  local text = "FAILED: with the lock, the number of items sold is wrong."
  if is_right then
    text = ("With the lock, exactly %d of %d items were sold."):format(
      math.min(items, customers), items)
  elseif count.wrong == 0 then
    text = "With the lock, no item was sold twice, but some customers got an error."
  end
  print(painted(is_right and GREEN or RED, text))
  return is_right
end

--- Prints two lines of the file at `path`, which is called `name`: the line that calls sell without
-- the lock, and the line that calls it with the lock. Comments at the ends of the lines mark them.
function M.difference(path, name)
  print(("\nThe difference, in %s:\n"):format(name))
  for line in io.lines(path) do
    local code = line:match "^ *(.-) *%-%- without the lock$"
    if code then print(painted(RED, "  - " .. code)) end
    code = line:match "^ *(.-) *%-%- with the lock$"
    if code then print(painted(GREEN, "  + " .. code)) end
  end
end

return M
