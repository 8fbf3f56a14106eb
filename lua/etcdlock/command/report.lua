--- Output of the command: its exit status, messages on standard error, tables and JSON.
local escape = require("etcdlock.text").escape
local make_control_filter = require("etcdlock.text").make_control_filter
local replace = require("etcdlock.text").replace

local M = {}

--- Exit statuses. Those from 64 to 78 follow sysexits.h, the last three follow the shell.
M.EXIT = {
  OK = 0,
  FAILED = 1,
  USAGE = 64,
  UNAVAILABLE = 69,
  LOST = 70,
  SYSTEM = 71,
  TIMEOUT = 75,
  PROTOCOL = 76,
  DENIED = 77,
  CONFLICT = 78,
  NOT_EXECUTABLE = 126,
  NOT_FOUND = 127,
  SIGNAL = 128, -- plus the number of the signal
}

-- Code of the library -> exit status.
local BY_CODE = {
  invalid = M.EXIT.USAGE,
  unavailable = M.EXIT.UNAVAILABLE,
  no_space = M.EXIT.UNAVAILABLE,
  lost = M.EXIT.LOST,
  nomem = M.EXIT.SYSTEM,
  timeout = M.EXIT.TIMEOUT,
  locked = M.EXIT.TIMEOUT,
  protocol = M.EXIT.PROTOCOL,
  denied = M.EXIT.DENIED,
  unauthenticated = M.EXIT.DENIED,
  conflict = M.EXIT.CONFLICT,
}

--- Returns the exit status for a call of the library that failed with `code`.
function M.status_of(code)
  return BY_CODE[code] or M.EXIT.FAILED
end

-- ---- messages ----

local STDERR = 2

local function format_line(format, ...)
  return "etcdlock: " .. escape(format:format(...)) .. "\n"
end

--- Prints a message on standard error: `format` with its arguments, as for string.format.
function M.print_message(format, ...)
  io.stderr:write(format_line(format, ...))
end

--- Prints a message without blocking. For code in luv's loop: a pipe that no process reads may be
-- full, and the loop must still handle signals and losses.
function M.print_message_async(format, ...)
  require "luv".fs_write(STDERR, format_line(format, ...), -1, function() end)
end

-- ---- tables ----

local COLUMN_GAP = "  "

-- Returns the number of columns that `text`, of valid UTF-8, takes at a terminal.
local function width_of(text)
  return text:find "[\128-\255]" and require "etcdlock.core".columns(text) or #text
end

local CUT = "\226\128\166" -- "..." as one character

--- Returns `text`, of valid UTF-8, in at most `width` columns.
function M.cut(text, width)
  if width_of(text) <= width then
    return text
  end
  local kept, left = {}, width - 1 -- for CUT
  for character in text:gmatch "[^\128-\191][\128-\191]*" do
    left = left - width_of(character)
    if left < 0 then
      break
    end
    kept[#kept + 1] = character
  end
  return table.concat(kept) .. (width > 0 and CUT or "")
end

-- Returns `rows` with escaped texts, below `head`.
local function escape_rows(head, rows)
  local all = { head }
  for n, row in ipairs(rows) do
    local cleaned = {}
    for i, text in ipairs(row) do
      cleaned[i] = escape(text)
    end
    all[n + 1] = cleaned
  end
  return all
end

-- Returns the widths of the columns of `rows`, and their sum with the gaps.
local function measure(rows)
  local widths, sum = {}, 0
  for _, row in ipairs(rows) do
    for i, text in ipairs(row) do
      widths[i] = math.max(widths[i] or 0, width_of(text))
    end
  end
  for _, width in ipairs(widths) do
    sum = sum + width + #COLUMN_GAP
  end
  return widths, sum - #COLUMN_GAP
end

-- Returns the line of `row`, at most `limit` columns wide.
local function format_row(row, widths, is_number, limit, paint)
  local cells = {}
  for i, text in ipairs(row) do
    text = M.cut(text, widths[i])
    local space = (" "):rep(widths[i] - width_of(text))
    local cell = M.cut(is_number[i] and space .. text or text .. space, limit)
    cells[i] = paint and paint(i, text, cell) or cell
    limit = limit - widths[i] - #COLUMN_GAP
    if limit <= 0 then
      break
    end
  end
  -- gsub(" +$", "") takes hours for a text with a million blanks in the middle.
  return table.concat(cells, COLUMN_GAP):match "^.*[^ ]" or ""
end

--- Returns the lines of a table, without line ends. `head` and each of `rows` is a list of as many
-- texts. Columns with `is_number[column]` are aligned on the right. Control characters in `rows`
-- are escaped. `screen`, if given, has the fields
--   width     columns of the screen: the table is cut to it
--   narrow    list of { column, least width }: columns that are cut first, in this order
--   paint     function(column, text, cell) that returns the cell, the text with blanks, in colour
function M.format_table(head, rows, is_number, screen)
  local all = escape_rows(head, rows)
  local widths, sum = measure(all)
  local limit = screen and screen.width or sum
  for _, column in ipairs(screen and screen.narrow or {}) do
    local i, least = column[1], column[2]
    local taken = math.max(0, math.min(sum - limit, widths[i] - least))
    widths[i], sum = widths[i] - taken, sum - taken
  end
  local lines = {}
  for n, row in ipairs(all) do
    lines[n] = format_row(row, widths, is_number, limit, screen and screen.paint)
  end
  return lines
end

-- ---- JSON ----

-- Returns the JSON escape of a character of two or three bytes.
local function json_escape(sequence)
  local first, second, third = sequence:byte(1, 3)
  local code = third and (first % 16 * 64 + second % 64) * 64 + third % 64
    or first % 32 * 64 + second % 64
  return ("\\u%04x"):format(code)
end

local keep_or_escape = make_control_filter(json_escape)

local function replacement_character()
  return "\\ufffd"
end

--- Returns `json` with escapes for characters that could control a terminal, and for invalid
-- UTF-8. A JSON encoder has already escaped control characters of one byte.
function M.clean_json(json)
  return replace(json, "^[%z\1-\127]+", keep_or_escape, replacement_character)
end

return M
