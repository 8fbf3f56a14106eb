--- etcdlock ls prints a list, once or again and again: the queues of locks (queues.lua) or, with
-- --runs, the last runs of jobs (runs.lua). Each of these modules has the functions
--   read(client, prefix)    returns the list, for names that begin with `prefix` (nil: all);
--                           or nil, message, code
--   format_rows(list)       returns the rows of its table
--   format_summary(list)    returns the line above the table of a terminal
--   format_json(item)       returns an item of the list as JSON
-- and the fields `head`, `is_number`, `narrow` and `paint` (or nil) for report.format_table, and
-- `nothing`: the line for an empty list, where "%s" stands for the words about the beginning of the
-- names.
local EXIT = require("etcdlock.command.report").EXIT
local report = require "etcdlock.command.report"
local settings = require "etcdlock.command.settings"
local escape = require("etcdlock.text").escape
local quote = require("etcdlock.text").quote

local M = {}

-- Returns the lines of the table of `list`. `screen` is the parameter of report.format_table.
local function format_lines(view, list, prefix, screen)
  local rows = view.format_rows(list)
  if rows[1] then
    return report.format_table(view.head, rows, view.is_number, screen)
  end
  local which = prefix and (" whose name begins with %s"):format(quote(prefix)) or ""
  local text = view.nothing:format(which)
  return { screen and report.cut(text, screen.width) or text }
end

local function format_json(view, list)
  local parts = {}
  for i, item in ipairs(list) do
    parts[i] = view.format_json(item)
  end
  return report.clean_json("[" .. table.concat(parts, ",") .. "]")
end

local function format_names(list)
  local lines = {}
  for i, item in ipairs(list) do
    lines[i] = escape(item.name) .. "\n"
  end
  return table.concat(lines)
end

-- Returns lines for a terminal: the summary of `list` and the table. If the terminal has too few
-- rows for them, the last line tells how many lines are left out.
local function format_screen(view, list, prefix)
  local columns, rows = require("etcdlock.command.terminal").get_size()
  local screen = { width = columns - 1, narrow = view.narrow, paint = view.paint }
  local lines = format_lines(view, list, prefix, screen)
  table.insert(lines, 1, report.cut(view.format_summary(list), columns - 1))
  local rest = #lines - (rows - 1) -- the cursor stands in the last row
  if rest > 0 then
    rest = math.min(rest + 1, #lines) -- the last row tells the number
    for _ = 1, rest do
      table.remove(lines)
    end
    lines[#lines + 1] = report.cut(("%d more lines"):format(rest), columns - 1)
  end
  return lines
end

-- Control sequences of the terminal. REDRAW moves the cursor to the top left. LINE_END erases the
-- rest of the line and ends the line. REST erases the rest of the screen.
local REDRAW, LINE_END, REST = "\27[H", "\27[K\n", "\27[J"
-- Seconds between two checks for Ctrl-C: the Lua interpreter handles it only while Lua code runs.
local SLICE = 0.2

-- Prints `list` in the format that `args` and `is_screen` select. Returns nil if the output cannot
-- be written.
local function print_list(args, view, list, is_screen)
  if args.json then
    return report.print(format_json(view, list), "\n")
  elseif args.names then
    return report.print(format_names(list), args.watch and "\n" or "")
  elseif is_screen then
    local lines = format_screen(view, list, args.below)
    return report.print(REDRAW, table.concat(lines, LINE_END), LINE_END, REST)
  end
  local lines = format_lines(view, list, args.below)
  return report.print(table.concat(lines, "\n"), "\n", args.watch and "\n" or "")
end

local function sleep(seconds)
  local uv = require "luv"
  while seconds > 0 do
    uv.sleep(math.ceil(math.min(seconds, SLICE) * 1000))
    seconds = seconds - SLICE
  end
end

-- Prints the list once, or with --watch again and again. With --watch, the function does not return
-- when etcd is unreachable: it prints a message and tries again. Returns the exit status.
local function run(args, view, client)
  local is_screen = args.watch and not (args.json or args.names)
    and require "etcdlock.command.terminal".is_present
  while true do
    local list, message, code = view.read(client, args.below)
    if list then
      if not print_list(args, view, list, is_screen) then
        return EXIT.FAILED
      end
    else
      local status = settings.fail(message, code)
      if not args.watch or code ~= "unavailable" then
        return status
      end
    end
    if not args.watch then
      return EXIT.OK
    end
    sleep(args.interval)
  end
end

--- Runs `etcdlock ls`. Returns the exit status.
function M.ls(args)
  if not args.runs then
    settings.refuse_prefix(args, "PREFIX", args.below or "")
  end
  local client, status = settings.connect(args)
  if not client then
    return status
  end
  status = run(args, require("etcdlock.command." .. (args.runs and "runs" or "queues")), client)
  client:close()
  return status
end

return M
