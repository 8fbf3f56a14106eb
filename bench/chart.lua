-- Bars that tell how many times as fast something is, as SVG: they stand to the left and
-- the right of 1, on a scale on which twice is as far as half.

local measure = require "bench.measure"

local M = {}

local WIDTH, LABELS, RIGHT = 760, 290, 110
local TOP, STEP, BAR = 62, 30, 18
local FIELD = WIDTH - LABELS - RIGHT -- what is left for the bars

-- What bars may be colored.
M.BLUE, M.ORANGE, M.GRAY = "#1f6feb", "#d1742f", "#8b949e"

local HEAD = [[
<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"
  font-family="sans-serif" font-size="13" fill="#24292f">
<rect width="100%%" height="100%%" fill="#ffffff"/>
<text x="16" y="26" font-size="16" font-weight="bold">%s</text>
<text x="16" y="46" fill="#57606a">%s</text>
]]
local LABEL = '<text x="%d" y="%d" text-anchor="end">%s</text>\n'
local RECTANGLE = '<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>\n'
local VALUE = '<text x="%.1f" y="%d">%s</text>\n'
local LINE = '<path d="M%.1f %d V%d" stroke="%s" stroke-width="%d"/>\n'
local WHISKER = '<path d="M%.1f %d H%.1f" stroke="#24292f" stroke-width="1"/>\n'

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" }

local function escape(text)
  return (text:gsub("[&<>]", ENTITIES))
end

-- The least and the greatest number of all that the bars show: of those that have a
-- place, which beside somebody who got nothing done there may not be.
local function range(bars)
  local low, high = 1, 1
  for _, bar in ipairs(bars) do
    for _, value in ipairs { bar.low, bar.value, bar.high, bar.promised } do
      if value > 0 and value < math.huge then
        low, high = math.min(low, value), math.max(high, value)
      end
    end
  end
  return low, high
end

-- A function from numbers to places.
local function scale(bars)
  local low, high = range(bars)
  local span = math.max(math.log(high / low), 0.1)
  return function(value)
    return LABELS + math.log(math.min(math.max(value, low), high) / low) / span * FIELD
  end
end

local function draw(bar, y, at)
  local from, to = at(1), at(bar.value)
  local middle = y + BAR / 2
  local parts = {
    LABEL:format(LABELS - 10, y + 14, escape(bar.label)),
    RECTANGLE:format(math.min(from, to), y, math.abs(to - from), BAR, bar.color),
    WHISKER:format(at(bar.low), middle, at(bar.high)),
    VALUE:format(math.max(from, to, at(bar.high), at(bar.promised or bar.low)) + 8, y + 14,
      measure.number(bar.value) .. " ×"),
  }
  if bar.promised then
    parts[#parts + 1] = LINE:format(at(bar.promised), y - 3, y + BAR + 3, "#24292f", 2)
  end
  return table.concat(parts)
end

--- A chart of |bars|: label, color, value, low, high, promised (a mark).
function M.bars(title, subtitle, bars)
  local height = TOP + STEP * #bars + 12
  local parts, at = {}, scale(bars)
  parts[1] = HEAD:format(WIDTH, height, WIDTH, height, escape(title), escape(subtitle))
  parts[2] = LINE:format(at(1), TOP - 6, height - 8, "#d0d7de", 1)
  for i, bar in ipairs(bars) do
    parts[#parts + 1] = draw(bar, TOP + STEP * (i - 1), at)
  end
  return table.concat(parts) .. "</svg>\n"
end

return M
