--- Output of etcdlock: exit statuses, messages on standard error, tables and JSON.
local escape = require("etcdlock.text").escape
local make_control_filter = require("etcdlock.text").make_control_filter
local quote = require("etcdlock.text").quote
local replace = require("etcdlock.text").replace

local M = {}

--- The exit statuses of etcdlock. Those from 64 to 78 have about the meaning that they have in
-- sysexits.h, except LOST and CONFLICT. The last three are those of a shell.
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

-- Code of a failed call of the library -> exit status of etcdlock.
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

--- Prints the texts on standard output. Returns nil if they cannot be written, for example because
-- the process that reads them has ended.
function M.print(...)
  return io.write(...) and io.flush()
end

--- Prints `text`. Returns the exit status: FAILED if `text` cannot be written.
function M.print_text(text)
  return M.print(text) and M.EXIT.OK or M.EXIT.FAILED
end

--- Returns `word` in quotes for a shell.
function M.quote_for_shell(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- ---- messages ----

local STDERR = 2

local function format_line(format, ...)
  return "etcdlock: " .. escape(format:format(...)) .. "\n"
end

--- Prints a message on standard error. The parameters are those of string.format.
function M.print_message(format, ...)
  io.stderr:write(format_line(format, ...))
end

--- Prints a message, as print_message does, but without blocking. For messages during the wait for
-- a lock, and while the command runs: if standard error is a full pipe that no process reads, a
-- blocking write would keep luv's loop from handling signals and the loss of the lock.
function M.print_message_async(format, ...)
  require "luv".fs_write(STDERR, format_line(format, ...), -1, function() end)
end

-- ---- tables ----

--- Text of a cell without a value.
M.NOTHING = "-"

--- Returns the text of a cell with the name of a lock: in quotes if it begins or ends with a blank,
-- because it could look like an empty cell.
function M.format_name(name)
  return (name:find "^%s" or name:find "%s$") and quote(name) or name
end

--- Returns `seconds` as a text such as 5s, 3m07s, 2h05m or 3d04h.
function M.format_duration(seconds)
  seconds = math.floor(math.max(0, seconds))
  local minutes, hours = math.floor(seconds / 60), math.floor(seconds / 3600)
  if seconds < 60 then
    return ("%ds"):format(seconds)
  elseif hours < 1 then
    return ("%dm%02ds"):format(minutes, seconds % 60)
  elseif hours < 48 then
    return ("%dh%02dm"):format(hours, minutes % 60)
  end
  return ("%dd%02dh"):format(math.floor(hours / 24), hours % 24)
end

local COLUMN_GAP = "  "

-- Returns the number of columns that `text` takes at a terminal. `text` must be valid UTF-8.
local function width_of(text)
  return text:find "[\128-\255]" and require "etcdlock.core".columns(text) or #text
end

local CUT = "\226\128\166" -- "..." as one character

--- Returns `text`, cut to `width` columns if it is longer. `text` must be valid UTF-8.
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

-- Returns a list of rows: first `head`, then `rows` with their texts escaped.
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

-- Returns a list of the widths of the columns of `rows`, and the width of the whole table: the sum
-- of these widths and of the gaps between the columns.
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

-- Returns `row` as a line of at most `limit` columns. The other parameters: `widths` of measure,
-- `is_number` and `paint` of M.format_table.
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
  -- gsub(" +$", "") would need hours for a text with a million blanks in its middle.
  return table.concat(cells, COLUMN_GAP):match "^.*[^ ]" or ""
end

--- Returns a list of the lines of a table, without line ends. `head` and each of `rows` is a list
-- of texts, one for each column. A column is aligned on the right if `is_number[column]` is true.
-- Control characters in `rows` are escaped. `screen` may be nil, or has the fields
--   width     columns of the screen, to which the table is cut
--   narrow    list of { column, least width }: if the table is too wide, these columns are cut
--             first, in this order, each down to its least width
--   paint     function(column, text, cell), or nil. It returns `cell`, which is `text` padded with
--             blanks, with control sequences for a colour
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

-- Returns the JSON escape, such as \u009b, of a UTF-8 sequence of two or three bytes.
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

--- Returns the text `json` with escapes in place of characters that could control a terminal, and
-- with \ufffd in place of each byte of invalid UTF-8. Control characters of one byte are kept,
-- because the JSON encoder has escaped them already.
function M.clean_json(json)
  return replace(json, "^[%z\1-\127]+", keep_or_escape, replacement_character)
end

return M
