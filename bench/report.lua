-- Turns the results of run.lua into text: for a terminal, and for bench/README.md.

local compare = require "bench.compare"
local measure = require "bench.measure"

local M = {}

local number = measure.number

-- ---- the text -----------------------------------------------------------------------

local function range(spread)
  return ("%s to %s"):format(number(spread.low), number(spread.high))
end

local function verdict(is_kept)
  return is_kept and "reached" or "MISSED"
end

local function comparison_lines(row, lines)
  for _, one in ipairs(compare.comparisons(row)) do
    local line = ("  %-48s %6s × (%s)"):format(one.label, number(one.ratio.median),
      range(one.ratio))
    if one.promised then
      line = ("%s, target %s: %s"):format(line, number(one.promised),
        verdict(one.ratio.median >= one.promised))
    end
    if one.least then
      line = ("%s; least served process: %s, ours %s"):format(line, number(one.least),
        number(one.our_least))
    end
    lines[#lines + 1] = line
  end
end

local function figure_lines(row, lines)
  for _, one in ipairs(compare.figures(row)) do
    local line = ("  %-48s %6s   (%s)"):format(one.label, number(one.spread.median),
      range(one.spread))
    if one.at_most then
      line = ("%s, target at most %s: %s"):format(line, number(one.at_most),
        verdict(one.spread.median <= one.at_most))
    end
    lines[#lines + 1] = line
  end
end

--- Returns the text for a terminal.
function M.text(results)
  local lines = { "", "etcdlock is so many times as fast as (lowest to highest round):" }
  for _, row in ipairs(results.rows) do
    lines[#lines + 1] = "\n" .. row.title
    comparison_lines(row, lines)
    figure_lines(row, lines)
    for _, entrant in ipairs(row.entrants) do
      if compare.broken(entrant) > 0 then
        lines[#lines + 1] = ("  %s: TWO HELD IT AT ONCE, %d times"):format(entrant.label,
          compare.broken(entrant))
      end
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

-- ---- markdown -----------------------------------------------------------------------

local function append_row(lines, ...)
  lines[#lines + 1] = "| " .. table.concat({ ... }, " | ") .. " |"
end

-- Returns the cell of a target: `sign` is "≥" or "≤".
local function target(sign, value, is_reached)
  return ("%s %s, %s"):format(sign, number(value), is_reached and "reached" or "**missed**")
end

local function append_comparisons(lines, row)
  for i, one in ipairs(compare.comparisons(row)) do
    append_row(lines, i == 1 and row.title or "", one.label,
      ("**%s**"):format(number(one.ratio.median)), range(one.ratio),
      one.promised and target("≥", one.promised, one.ratio.median >= one.promised) or "",
      one.least and ("%s, ours %s"):format(number(one.least), number(one.our_least)) or "")
  end
end

local function append_figures(lines, row)
  for i, one in ipairs(compare.figures(row)) do
    append_row(lines, i == 1 and row.title or "", one.label,
      ("**%s**"):format(number(one.spread.median)), range(one.spread),
      one.at_most and target("≤", one.at_most, one.spread.median <= one.at_most) or "")
  end
end

--- Returns the text for bench/README.md: a table of all comparisons, a table of the figures of
-- etcdlock alone, and links to the charts.
function M.markdown(results)
  local about, lines = results.about, {}
  lines[1] = "![Speed of etcdlock and of Go's clientv3](charts/beside_go.svg)\n"
  lines[2] = ("Medians of %d rounds of %g s (some rows: more and shorter rounds). etcdlock %s"
    .. " on %s, %d cores, etcd %s, %s.\n"):format(about.rounds, about.seconds,
    about.etcdlock, about.date, about.cores, about.etcd, about.lua)
  append_row(lines, "work", "compared with", "times as fast", "in the rounds", "target",
    "least served process")
  append_row(lines, "---", "---", "--:", "--:", "--:", "--:")
  for _, row in ipairs(results.rows) do append_comparisons(lines, row) end
  lines[#lines + 1] = ""
  append_row(lines, "etcdlock alone", "", "median", "in the rounds", "target")
  append_row(lines, "---", "---", "--:", "--:", "--:")
  for _, row in ipairs(results.rows) do append_figures(lines, row) end
  for _, excuse in ipairs(results.excuses) do
    lines[#lines + 1] = ("\nNot in this run: %s (%s): %s."):format(excuse.who, excuse.row,
      excuse.why)
  end
  for _, row in ipairs(results.rows) do
    if row.entrants[2] then
      lines[#lines + 1] = ("\n![%s](charts/%s.svg)"):format(row.title, row.id)
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

return M
