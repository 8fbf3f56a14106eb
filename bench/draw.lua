-- The results of run.lua as charts.

local chart = require "bench.chart"
local compare = require "bench.compare"

local function bar_of(label, spread, color, promised)
  return {
    label = label, color = color, promised = promised,
    value = spread.median, low = spread.low, high = spread.high,
  }
end

local function beside_go(results)
  local bars = {}
  for _, row in ipairs(results.rows) do
    for _, one in ipairs(compare.comparisons(row)) do
      if one.id == "go" then
        local color = one.ratio.median < 1 and chart.ORANGE or chart.BLUE
        bars[#bars + 1] = bar_of(row.short, one.ratio, color, one.promised)
      end
    end
  end
  return chart.bars("How many times as fast as Go's clientv3",
    "medians and spread of the rounds; the black marks are what is promised", bars)
end

local function speeds(row)
  local bars = { bar_of("etcdlock", { median = 1, low = 1, high = 1 }, chart.BLUE) }
  for _, one in ipairs(compare.comparisons(row)) do
    bars[#bars + 1] = bar_of(one.label, one.inverse, chart.GRAY)
  end
  return chart.bars(row.title,
    "how many times as fast as etcdlock; medians and spread of the rounds", bars)
end

--- Calls put(name, svg) with each of them.
return function(results, put)
  put("beside_go", beside_go(results))
  for _, row in ipairs(results.rows) do
    if row.entrants[2] then put(row.id, speeds(row)) end
  end
end
