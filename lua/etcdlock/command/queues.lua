--- etcdlock ls lists the queues of locks. etcdlock break takes a lock from its holder.
local EXIT = require("etcdlock.command.report").EXIT
local json = require "etcdlock.json"
local quote = require("etcdlock.text").quote
local report = require "etcdlock.command.report"
local settings = require "etcdlock.command.settings"

local M = {}

-- ---- the list ----

local HEAD = { "NAME", "MODE", "STATE", "TOKEN", "HOST", "PID", "QUEUED", "AGE", "VALUE" }
local IS_NUMBER = { [4] = true, [6] = true, [8] = true }

local NOTHING = "-"

-- Returns `seconds` as a text such as 5s, 3m07s, 2h05m or 3d04h.
local function format_duration(seconds)
  seconds = math.max(0, seconds)
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

-- Bytes of the column VALUE, beyond which the text is cut: the maximum of the option `value`.
local VALUE_MAX = 4096

-- Returns the text of the column VALUE: the owner of the entry, if it has a name, and the value.
local function format_value(entry)
  local words = {}
  if entry.owner then
    words[1] = entry.owner .. ":"
  end
  words[#words + 1] = entry.value
  local text = words[1] and table.concat(words, " ") or NOTHING
  return #text > VALUE_MAX and text:sub(1, VALUE_MAX) .. "..." or text
end

local function state_of(entry)
  if entry.held == nil then
    return "unknown"
  end
  return entry.held and "holds" or "waits"
end

-- Returns the text of the column NAME. A name that begins or ends with a blank is in quotes, since
-- the column is empty in the rows below the first one of a queue.
local function format_name(name)
  return (name:find "^%s" or name:find "%s$") and quote(name) or name
end

local function row_of(name, entry, now)
  return {
    name,
    entry.permits and ("permit/%d"):format(entry.permits) or entry.mode,
    state_of(entry),
    ("%.0f"):format(entry.token),
    entry.host or NOTHING,
    entry.pid and ("%.0f"):format(entry.pid) or NOTHING,
    entry.since and os.date("%Y-%m-%d %H:%M:%S", entry.since) or NOTHING,
    entry.since and format_duration(now - entry.since) or NOTHING,
    format_value(entry),
  }
end

-- Returns a list of text lines, the printed table of `queues`. `queues` is the result of
-- client:queues(prefix); `prefix` is nil if all locks are listed. `screen` is the parameter of
-- report.format_table, or nil.
local function format_lines(queues, prefix, screen)
  local rows, now = {}, os.time()
  for _, queue in ipairs(queues) do
    for i, entry in ipairs(queue.entries) do
      rows[#rows + 1] = row_of(i == 1 and format_name(queue.name) or "", entry, now)
    end
  end
  if not rows[1] then
    local which = prefix and (" whose name begins with %s"):format(quote(prefix)) or ""
    local text = ("No lock%s is held or waited for."):format(which)
    return { screen and report.cut(text, screen.width) or text }
  end
  return report.format_table(HEAD, rows, IS_NUMBER, screen)
end

-- The columns that are cut if the table is too wide for the screen: first VALUE, then NAME. Each
-- entry contains the number of the column and the least width to which it is cut.
local NARROW = { { 9, 8 }, { 1, 12 } }

local STATE = 3 -- column
local COLOURS = { holds = "green", waits = "yellow" }

local function paint_state(column, text, cell)
  local colour = column == STATE and COLOURS[text]
  return colour and require("etcdlock.command.terminal").paint(colour, cell) or cell
end

-- Returns a line with the time, the number of locks and the number of waiters.
local function format_summary(queues)
  local waiters = 0
  for _, queue in ipairs(queues) do
    for _, entry in ipairs(queue.entries) do
      waiters = waiters + (state_of(entry) == "waits" and 1 or 0)
    end
  end
  return ("%s  %d lock%s, %d waiter%s"):format(os.date "%H:%M:%S", #queues,
    #queues == 1 and "" or "s", waiters, waiters == 1 and "" or "s")
end

-- Returns lines for a terminal: the summary of `queues` and the table. If the terminal has too few
-- rows for them, the last line tells how many lines are left out.
local function format_screen(queues, prefix)
  local columns, rows = require("etcdlock.command.terminal").get_size()
  local screen = { width = columns - 1, narrow = NARROW, paint = paint_state }
  local lines = format_lines(queues, prefix, screen)
  table.insert(lines, 1, report.cut(format_summary(queues), columns - 1))
  local rest = #lines - (rows - 1) -- the cursor stands in the last row
  if rest > 0 then
    for _ = 1, rest + 1 do
      table.remove(lines)
    end
    lines[#lines + 1] = report.cut(("%d more lines"):format(rest + 1), columns - 1)
  end
  return lines
end

-- Returns `queues` as one line of JSON: a list of { name, entries, other_keys }.
local function format_json(queues)
  local parts = {}
  for i, queue in ipairs(queues) do
    local entries = {}
    for k, entry in ipairs(queue.entries) do
      entries[k] = json.encode(entry)
    end
    parts[i] = ('{"name":%s,"other_keys":%d,"entries":[%s]}'):format(json.encode(queue.name),
      queue.other_keys, table.concat(entries, ","))
  end
  return report.clean_json("[" .. table.concat(parts, ",") .. "]")
end

-- ---- ls ----

-- Control sequences of the terminal. REDRAW moves the cursor to the top left. LINE_END erases the
-- rest of the line and ends the line. REST erases the rest of the screen.
local REDRAW, LINE_END, REST = "\27[H", "\27[K\n", "\27[J"
-- Seconds between two checks for Ctrl-C: the Lua interpreter handles it only while Lua code runs.
local SLICE = 0.2

-- Prints `queues` in the format that `args` and `is_screen` select. Returns nil if the output
-- cannot be written.
local function print_queues(args, queues, is_screen)
  if args.json then
    return report.print(format_json(queues), "\n")
  elseif is_screen then
    local lines = format_screen(queues, args.below)
    return report.print(REDRAW, table.concat(lines, LINE_END), LINE_END, REST)
  end
  local lines = format_lines(queues, args.below)
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
local function list(args, client)
  local is_screen = args.watch and not args.json and require "etcdlock.command.terminal".is_present
  while true do
    local queues, message, code = client:queues(args.below)
    if queues then
      if not print_queues(args, queues, is_screen) then
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
  local client, status = settings.connect(args)
  if not client then
    return status
  end
  status = list(args, client)
  client:close()
  return status
end

-- ---- break ----

--- Runs `etcdlock break`. Returns the exit status.
M["break"] = function(args)
  local client, status = settings.connect(args)
  if not client then
    return status
  end
  local broken, message, code = client:break_lock(args.name, args.token)
  client:close()
  return broken and EXIT.OK or settings.fail(message, code)
end

return M
