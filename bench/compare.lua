-- What the samples of a row tell: no times, which are this machine's and this hour's, but
-- how many times as fast one was as another in the same round.

local measure = require "bench.measure"

local M = {}

-- The numbers in |field| of an entrant's samples.
local function values(entrant, field)
  local list = {}
  for i, sample in ipairs(entrant.samples) do list[i] = sample[field] end
  return list
end

-- |rate| as often as there are rounds.
local function constant(rate, rounds)
  local list = {}
  for i = 1, rounds do list[i] = rate end
  return list
end

-- What is served to the process that gets the least; nil if there is one only.
local function least(entrant)
  local list = values(entrant, "least")
  return list[1] and measure.spread(list).median
end

--- What ours stands beside in |row|: id, label, the ratio of ours to it and the other
-- way round, promised, and of fairness least and our_least.
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

--- What is told of ours alone in |row|: label, spread, at_most.
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

--- How often two of |entrant|'s were inside of one lock at once.
function M.broken(entrant)
  local count = 0
  for _, sample in ipairs(entrant.samples) do count = math.max(count, sample.broken or 0) end
  return count
end

--- Did nobody of ours ever hold a lock that somebody else held?
function M.is_exclusive(results)
  for _, row in ipairs(results.rows) do
    if M.broken(row.entrants[1]) > 0 then return false end
  end
  return true
end

return M
