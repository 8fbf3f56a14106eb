--- The terminal at standard output: its size, and colours.
local uv = require "luv"

local M = {}

local STDOUT = 1

--- True if standard output is a terminal that can move its cursor.
M.is_present = uv.guess_handle(STDOUT) == "tty" and os.getenv "TERM" ~= "dumb"

-- False if standard output is no terminal, if TERM is `dumb`, or if the user wants no colours
-- (https://no-color.org).
local has_colour = M.is_present and (os.getenv "NO_COLOR" or "") == ""

local CODES = { bold = "1", red = "1;31", green = "32", yellow = "33" }

--- Returns `text` with the control sequences for the colour `name`, a key of CODES. Returns `text`
-- unchanged if colours are off.
function M.paint(name, text)
  return has_colour and ("\27[%sm%s\27[0m"):format(CODES[name], text) or text
end

-- The size that get_size returns if the terminal does not report its size.
local COLUMNS, ROWS = 80, 24

local tty -- created once; get_size asks it for the size at each call, because the size may change

--- Returns the columns and rows of the terminal.
function M.get_size()
  tty = tty or uv.new_tty(STDOUT, false)
  local columns, rows
  if tty then
    columns, rows = tty:get_winsize()
  end
  if not columns or columns == 0 or rows == 0 then
    return COLUMNS, ROWS
  end
  return columns, rows
end

return M
