-- Computes the results of a row from its samples. The results are ratios of rates in the same
-- round, because times would depend on the machine and on its load.

local measure = require "bench.measure"

local M = {}

-- Returns the list of the numbers in |field| of all samples of |entrant|.
local function values(entrant, field)
  local list = {}
  for i, sample in ipairs(entrant.samples) do list[i] = sample[field] end
  return list
end

-- Returns a list that contains |rate| once for each round.
local function constant(rate, rounds)
  local list = {}
  for i = 1, rounds do list[i] = rate end
  return list
end

-- Returns the median of the field `least` of the samples of |entrant| (see crowd.lua); nil if they
-- have no such field.
local function least(entrant)
  local list = values(entrant, "least")
  return list[1] and measure.spread(list).median
end

--- Returns the comparisons of etcdlock with the other entrants and the limits of |row|, a list of
-- tables:
--   id, label   of the other entrant or limit
--   ratio       the spread of the rate of etcdlock divided by the other rate
--   inverse     the spread of the other rate divided by the rate of etcdlock
--   promised    the target for the ratio; nil: none
--   least       how fair the other entrant is: the median of `least` in crowd.lua; nil if the row
--               has one process, or for a limit
--   our_least   how fair etcdlock is, in the same way; nil if its samples have no field `least`
function M.comparisons(row)
  local list, ours = {}, row.entrants[1]
  local our_rates = values(ours, "rate")
  local function compare(other, rates)
    list[#list + 1] = {
      id = other.id,
      label = other.label,
      ratio = measure.ratio(our_rates, rates),
      inverse = measure.ratio(rates, our_rates),
      promised = row.promised[other.id],
      least = row.processes > 1 and other.samples and least(other) or nil,
      our_least = least(ours),
    }
  end
  for i = 2, #row.entrants do compare(row.entrants[i], values(row.entrants[i], "rate")) end
  for _, limit in ipairs(row.limits) do compare(limit, constant(limit.rate, #our_rates)) end
  return list
end

--- Returns the figures of etcdlock alone in |row|, a list of { label, spread, at_most }. `at_most`
-- is the target; nil: none.
function M.figures(row)
  local list = {}
  for i, figure in ipairs(row.figures) do
    list[i] = {
      label = figure.label,
      at_most = figure.at_most,
      spread = measure.spread(values(row.entrants[1], figure.field)),
    }
  end
  return list
end

--- Returns how often two owners of |entrant| held the same lock at once. That is the maximum,
-- because each sample counts since the start of the processes.
function M.broken(entrant)
  local count = 0
  for _, sample in ipairs(entrant.samples) do count = math.max(count, sample.broken or 0) end
  return count
end

--- Returns whether no two owners of etcdlock held the same lock at once in any row.
function M.is_exclusive(results)
  for _, row in ipairs(results.rows) do
    if M.broken(row.entrants[1]) > 0 then return false end
  end
  return true
end

return M
