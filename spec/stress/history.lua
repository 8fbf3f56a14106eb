-- Keeps the last events of each name, the figures of the run, and the violations.

local loop = require "spec.stress.loop"

local M = {
  figures = {}, -- name = count
  violations = 0,
}

local KEPT = 80 -- events per name
local SHOWN = 5 -- violations whose events are printed

local events, started = {}, loop.now()

local function stamp()
  return ("%9.3f"):format(loop.now() - started)
end

-- Adds an event to the history of |name|. "*" stands for all names.
function M.note(name, text, ...)
  local list = events[name]
  if not list then
    list = { first = 1, last = 0 }
    events[name] = list
  end
  list.last = list.last + 1
  list[list.last] = { at = loop.now(), text = stamp() .. " " .. text:format(...) }
  if list.last - list.first >= KEPT then
    list[list.first] = nil
    list.first = list.first + 1
  end
end

function M.count(figure, number)
  M.figures[figure] = (M.figures[figure] or 0) + (number or 1)
end

local function print_events(name)
  local all = {}
  for _, key in ipairs { name, name ~= "*" and "*" or nil } do
    local list = events[key] or { first = 1, last = 0 }
    for i = list.first, list.last do all[#all + 1] = list[i] end
  end
  table.sort(all, function(one, other) return one.at < other.at end)
  for _, event in ipairs(all) do print("    " .. event.text) end
end

-- Reports a violation that concerns |name|.
function M.violation(name, text, ...)
  M.violations = M.violations + 1
  local line = text:format(...)
  M.note(name, "VIOLATION: %s", line)
  print(("%s VIOLATION, name %s: %s"):format(stamp(), name, line))
  if M.violations <= SHOWN then print_events(name) end
  io.stdout:flush()
end

-- Returns one line with the figures |names|, in this order.
function M.summary(names)
  local parts = {}
  for i, name in ipairs(names) do
    parts[i] = ("%s %d"):format(name, M.figures[name] or 0)
  end
  return table.concat(parts, ", ")
end

return M
