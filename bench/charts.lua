-- Draws the results of run.lua with gnuplot: charts.gp.

local measure = require "bench.measure"
local proc = require "spec.support.programs.proc"
local report = require "bench.report"
local write_file = require "bench.write_file"

local BLUE, GRAY = 0x1f6feb, 0x8b949e

-- Puts a line for gnuplot before |lines|, because gnuplot draws the first one at the bottom: a
-- label, the median, low and high of |spread|, and a color. A round without any hold has the ratio
-- 0 or infinity, which a logarithmic axis cannot show.
local function append(lines, label, spread, color)
  local numbers = { [4] = color }
  for i, value in ipairs { spread.median, spread.low, spread.high } do
    numbers[i] = ("%.6g"):format(math.max(1e-3, math.min(value, 1e6)))
  end
  table.insert(lines, 1, ('"%s" %s\n'):format(label, table.concat(numbers, " ")))
end

-- Draws |lines| into |directory|/NAME.svg.
local function draw(directory, name, title, axis, lines)
  local data = ("%s/%s.dat"):format(directory, name)
  write_file(data, table.concat(lines))
  local out, code, err = proc.run {
    "gnuplot", "-c", "bench/charts.gp", data, ("%s/%s.svg"):format(directory, name), title, axis,
  }
  if code ~= 0 then error(out .. err, 0) end
end

--- Draws the charts of |results| into |directory|: beside_go.svg, and one for each row with several
-- entrants. Without gnuplot, prints that there are none.
return function(results, directory)
  if select(2, proc.run { "sh", "-c", "command -v gnuplot" }) ~= 0 then
    return print "There are no charts, because there is no gnuplot."
  end
  local beside_go = {}
  for _, row in ipairs(results.rows) do
    local rates, first = {}, row.entrants[1]
    for _, entrant in ipairs(row.entrants) do
      local list = {}
      for i, sample in ipairs(entrant.samples) do list[i] = sample.rate end
      append(rates, entrant.label, measure.spread(list), entrant.id == first.id and BLUE or GRAY)
    end
    if row.entrants[2] then draw(directory, row.id, row.title, "holds per second", rates) end
    for _, one in ipairs(report.comparisons(row)) do
      if one.id == "go" then append(beside_go, row.title, one.ratio, BLUE) end
    end
  end
  if beside_go[1] then
    draw(directory, "beside_go", "etcdlock beside Go's client", "times as fast", beside_go)
  end
end
