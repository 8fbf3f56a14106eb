-- Draws a bar chart of ratios as SVG. The axis is logarithmic. All bars begin at the left end of
-- the axis, so that the bar of the ratio 1 is visible too.

local measure = require "bench.measure"

local M = {}

local WIDTH, LABELS, RIGHT = 760, 290, 130
local TOP, BAR, BAR_STEP, GROUP_GAP, BOTTOM = 86, 16, 18, 10, 44
local FIELD = WIDTH - LABELS - RIGHT -- width of the field with the bars
local LEGEND_STEP = 240
local TICKS_MAX = 10

-- The colors of bars.
M.BLUE, M.ORANGE, M.GRAY = "#1f6feb", "#d1742f", "#8b949e"

local HEAD = [[
<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"
  font-family="sans-serif" font-size="13" fill="#24292f">
<rect width="100%%" height="100%%" fill="#ffffff"/>
<text x="16" y="26" font-size="16" font-weight="bold">%s</text>
<text x="16" y="46" fill="#57606a">bar: median; line: lowest to highest round%s</text>
]]
local TARGETS = "; black mark: target"
local LABEL = '<text x="%d" y="%.0f" text-anchor="end">%s</text>\n'
local TICK = '<text x="%.1f" y="%d" text-anchor="middle" fill="#57606a">%s</text>\n'
local RECTANGLE = '<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>\n'
local TEXT = '<text x="%.1f" y="%d">%s</text>\n'
local LINE = '<path d="M%.1f %d V%d" stroke="%s" stroke-width="%d"/>\n'
local WHISKER = '<path d="M%.1f %d H%.1f" stroke="#24292f" stroke-width="1"/>\n'

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" }

local function escape(text)
  return (text:gsub("[&<>]", ENTITIES))
end

-- Returns the smallest and the largest finite number above 0 that the bars of |groups| show.
local function range(groups)
  local low, high = 1, 1
  for _, group in ipairs(groups) do
    for _, bar in ipairs(group.bars) do
      for _, value in ipairs { bar.low, bar.value, bar.high, bar.promised } do
        if value > 0 and value < math.huge then
          low, high = math.min(low, value), math.max(high, value)
        end
      end
    end
  end
  return low, high
end

-- Returns the numbers at the ticks for values from |low| to |high|: the first is below |low|, the
-- last not below |high|. They are 1, 2 and 5 times powers of ten, or only the powers if those are
-- too many.
local function ticks_of(low, high)
  for _, steps in ipairs { { 1, 2, 5 }, { 1 } } do
    local list = {}
    for exponent = math.floor(math.log(low) / math.log(10)) - 1, 9 do
      for _, step in ipairs(steps) do
        local tick = step * 10 ^ exponent
        if tick < low * 0.99 then list = {} end
        if not list[1] or list[#list] < high then list[#list + 1] = tick end
      end
    end
    if #list <= TICKS_MAX or #steps == 1 then return list end
  end
end

-- Returns a function from a number to its x coordinate on an axis with |ticks|. The coordinate of a
-- number outside the axis is that of the nearest end.
local function scale_of(ticks)
  local low, high = ticks[1], ticks[#ticks]
  return function(value)
    local shown = math.min(math.max(value, low), high)
    return LABELS + math.log(shown / low) / math.log(high / low) * FIELD
  end
end

local function draw_axis(ticks, at, height, title)
  local parts = {}
  for _, tick in ipairs(ticks) do
    local color = tick == 1 and "#8b949e" or "#d0d7de"
    parts[#parts + 1] = LINE:format(at(tick), TOP - 8, height - BOTTOM, color, 1)
    parts[#parts + 1] = TICK:format(at(tick), height - BOTTOM + 15, ("%g"):format(tick))
  end
  parts[#parts + 1] = TICK:format(LABELS + FIELD / 2, height - 10, escape(title))
  return table.concat(parts)
end

local function draw_bar(bar, y, at)
  local middle, baseline = y + BAR / 2, y + BAR - 4
  local parts = {
    RECTANGLE:format(LABELS, y, at(bar.value) - LABELS, BAR, bar.color),
    WHISKER:format(at(bar.low), middle, at(bar.high)),
    TEXT:format(math.max(at(bar.value), at(bar.high), at(bar.promised or bar.low)) + 8, baseline,
      measure.number(bar.value) .. " ×" .. (bar.note and " " .. escape(bar.note) or "")),
  }
  if bar.promised then
    parts[#parts + 1] = LINE:format(at(bar.promised), y - 1, y + BAR + 1, "#24292f", 2)
  end
  return table.concat(parts)
end

local function draw_legend(legend)
  local parts = {}
  for i, entry in ipairs(legend) do
    local x = 16 + (i - 1) * LEGEND_STEP
    parts[#parts + 1] = RECTANGLE:format(x, 56, 12, 12, entry.color)
    parts[#parts + 1] = TEXT:format(x + 18, 67, escape(entry.label))
  end
  return table.concat(parts)
end

--- Returns the text of a chart. |axis|: the title of the axis.
-- |legend|: a list of { color, label }. |groups|: a list of { label, bars }.
-- Fields of a bar: `color`, `value`, `low`, `high`; if it has a target, `promised`; `note`, a text
-- after the value, or nil.
function M.bars(title, axis, legend, groups)
  local height, has_targets = TOP + BOTTOM, false
  for _, group in ipairs(groups) do
    height = height + #group.bars * BAR_STEP + GROUP_GAP
    for _, bar in ipairs(group.bars) do has_targets = has_targets or bar.promised ~= nil end
  end
  local ticks = ticks_of(range(groups))
  local at, y = scale_of(ticks), TOP
  local parts = {
    HEAD:format(WIDTH, height, WIDTH, height, escape(title), has_targets and TARGETS or ""),
    draw_legend(legend), draw_axis(ticks, at, height, axis),
  }
  for _, group in ipairs(groups) do
    parts[#parts + 1] = LABEL:format(LABELS - 10, y + #group.bars * BAR_STEP / 2 + 4,
      escape(group.label))
    for i, bar in ipairs(group.bars) do
      parts[#parts + 1] = draw_bar(bar, y + (i - 1) * BAR_STEP, at)
    end
    y = y + #group.bars * BAR_STEP + GROUP_GAP
  end
  return table.concat(parts) .. "</svg>\n"
end

return M
