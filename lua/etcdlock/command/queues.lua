--- The queues of locks: their list, for etcdlock ls (ls.lua describes the functions), and etcdlock
-- break, which takes a lock from its holder.
local EXIT = require("etcdlock.command.report").EXIT
local json = require "etcdlock.json"
local report = require "etcdlock.command.report"
local settings = require "etcdlock.command.settings"

local M = {}

-- ---- the list ----

M.head = { "NAME", "MODE", "STATE", "TOKEN", "HOST", "PID", "QUEUED", "AGE", "VALUE" }
M.is_number = { [4] = true, [6] = true, [8] = true }
M.nothing = "No lock%s is held or waited for."

local NOTHING = report.NOTHING

-- Bytes of the column VALUE, beyond which the text is cut: the maximum of the option `value`.
local VALUE_MAX = 4096

-- Returns the text of the column VALUE: the fields `owner` and `value` of the entry, if any.
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

local function row_of(name, entry, now)
  return {
    name,
    entry.permits and ("permit/%d"):format(entry.permits) or entry.mode,
    state_of(entry),
    ("%.0f"):format(entry.token),
    entry.host or NOTHING,
    entry.pid and ("%.0f"):format(entry.pid) or NOTHING,
    entry.since and os.date("%Y-%m-%d %H:%M:%S", entry.since) or NOTHING,
    entry.since and report.format_duration(now - entry.since) or NOTHING,
    format_value(entry),
  }
end

function M.read(client, prefix)
  return client:queues(prefix)
end

function M.format_rows(queues)
  local rows, now = {}, os.time()
  for _, queue in ipairs(queues) do
    for i, entry in ipairs(queue.entries) do
      rows[#rows + 1] = row_of(i == 1 and report.format_name(queue.name) or "", entry, now)
    end
  end
  return rows
end

-- If the table is too wide for the screen, first the column VALUE is cut, then NAME.
M.narrow = { { 9, 8 }, { 1, 12 } }

local STATE = 3 -- column
local COLOURS = { holds = "green", waits = "yellow" }

function M.paint(column, text, cell)
  local colour = column == STATE and COLOURS[text]
  return colour and require("etcdlock.command.terminal").paint(colour, cell) or cell
end

function M.format_summary(queues)
  local waiters = 0
  for _, queue in ipairs(queues) do
    for _, entry in ipairs(queue.entries) do
      waiters = waiters + (state_of(entry) == "waits" and 1 or 0)
    end
  end
  return ("%s  %d lock%s, %d waiter%s"):format(os.date "%H:%M:%S", #queues,
    #queues == 1 and "" or "s", waiters, waiters == 1 and "" or "s")
end

function M.format_json(queue)
  local entries = {}
  for i, entry in ipairs(queue.entries) do
    entries[i] = json.encode(entry)
  end
  return ('{"name":%s,"other_keys":%d,"entries":[%s]}'):format(json.encode(queue.name),
    queue.other_keys, table.concat(entries, ","))
end

-- ---- break ----

--- Runs `etcdlock break`. Returns the exit status.
M["break"] = function(args)
  settings.refuse_prefix(args, "NAME", args.name)
  local client, status = settings.connect(args)
  if not client then
    return status
  end
  local broken, message, code = client:break_lock(args.name, args.token)
  client:close()
  return broken and EXIT.OK or settings.fail(message, code)
end

return M
