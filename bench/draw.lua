-- Draws the results of run.lua as charts.

local chart = require "bench.chart"
local compare = require "bench.compare"

-- The spread of an entrant compared with itself.
local ONE = { median = 1, low = 1, high = 1 }

local function bar_of(spread, color, promised)
  local is_missed = promised and spread.median < promised
  return {
    color = is_missed and chart.ORANGE or color, promised = promised,
    value = spread.median, low = spread.low, high = spread.high,
    note = is_missed and "missed" or nil,
  }
end

local function beside_go(results)
  local groups = {}
  for _, row in ipairs(results.rows) do
    for _, one in ipairs(compare.comparisons(row)) do
      if one.id == "go" then
        groups[#groups + 1] = {
          label = row.short,
          bars = { bar_of(one.ratio, chart.BLUE, one.promised), bar_of(ONE, chart.GRAY) },
        }
      end
    end
  end
  return chart.bars("Speed of etcdlock and of Go's clientv3",
    "times as fast as Go's clientv3 (logarithmic)", {
      { color = chart.BLUE, label = "etcdlock" },
      { color = chart.ORANGE, label = "etcdlock, target missed" },
      { color = chart.GRAY, label = "Go's clientv3" },
    }, groups)
end

local function speeds(row)
  local groups = { { label = "etcdlock", bars = { bar_of(ONE, chart.BLUE) } } }
  for _, one in ipairs(compare.comparisons(row)) do
    groups[#groups + 1] = { label = one.label, bars = { bar_of(one.inverse, chart.GRAY) } }
  end
  return chart.bars(row.title, "times as fast as etcdlock (logarithmic)", {
    { color = chart.BLUE, label = "etcdlock" },
    { color = chart.GRAY, label = "others" },
  }, groups)
end

--- Draws the charts of |results|. Calls put(name, svg) for each chart.
return function(results, put)
  put("beside_go", beside_go(results))
  for _, row in ipairs(results.rows) do
    if row.entrants[2] then put(row.id, speeds(row)) end
  end
end
