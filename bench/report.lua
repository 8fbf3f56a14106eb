-- Turns the results of run.lua into text: for a terminal, and for the documents.

local measure = require "bench.measure"
local rows = require "bench.rows"

local M = {}

local number = measure.number

-- Returns the list of |field| of all samples of |entrant|.
local function values(entrant, field)
  local list = {}
  for i, sample in ipairs(entrant.samples) do list[i] = sample[field] end
  return list
end

local function median(entrant, field)
  return measure.spread(values(entrant, field)).median
end

-- ---- what is compared -----------------------------------------------------------------

--- Returns the comparisons of the first entrant of |row| with the others and with its limits, a
-- list of tables: `id` and `label` of the other; `ratio`, the spread of our rate divided by the
-- other's in the same round; `rate`, the other's median; `least`, how fair the other is (see
-- crowd.lua), nil for a limit or if the row has one process; `promised`, the target of the ratio,
-- or nil.
function M.comparisons(row)
  local list, ours = {}, values(row.entrants[1], "rate")
  local function compare(id, label, rates, least)
    list[#list + 1] = {
      id = id, label = label, ratio = measure.ratio(ours, rates), promised = row.promised[id],
      rate = measure.spread(rates).median, least = row.processes > 1 and least or nil,
    }
  end
  for i = 2, #row.entrants do
    local other = row.entrants[i]
    compare(other.id, other.label, values(other, "rate"), median(other, "least"))
  end
  for _, limit in ipairs(row.limits) do
    local rates = {}
    for i in ipairs(ours) do rates[i] = tonumber((limit:match "%d+")) end
    compare(limit, "a rate of " .. limit, rates)
  end
  return list
end

--- Returns the figures of the first entrant of |row|, a list of { label, spread, at_most }.
function M.figures(row)
  local list = {}
  for i, figure in ipairs(row.figures) do
    local all = {}
    for _, sample in ipairs(row.entrants[1].samples) do
      for _, value in ipairs(sample.figures[figure.field] or {}) do all[#all + 1] = value end
    end
    local label = rows.FIGURES[figure.field]
    if figure.percent == 100 then
      label = label .. ", maximum"
    elseif figure.percent ~= 50 then
      label = ("%s, %d %% of them"):format(label, figure.percent)
    end
    list[i] = {
      label = label, spread = measure.spread(all, figure.percent), at_most = figure.at_most,
    }
  end
  return list
end

-- Returns how often two owners of |entrant| held the same lock at once. That is the maximum,
-- because each sample counts since the start of the processes.
local function broken(entrant)
  local count = 0
  for _, sample in ipairs(entrant.samples) do count = math.max(count, sample.broken) end
  return count
end

--- Returns whether no two owners of a row's first entrant held the same lock at once.
function M.is_exclusive(results)
  for _, row in ipairs(results.rows) do
    if broken(row.entrants[1]) > 0 then return false end
  end
  return true
end

-- ---- the text -----------------------------------------------------------------------

local function range(spread)
  return ("%s to %s"):format(number(spread.low), number(spread.high))
end

--- Returns the text of |row| for a terminal.
function M.text(row)
  local lines, ours = {}, row.entrants[1]
  local rate = median(ours, "rate")
  local function add(...) lines[#lines + 1] = string.format(...) end
  local function verdict(is_kept) return is_kept and "reached" or "MISSED" end
  if rate > 0 then
    add("  %s: %s per second, so many times as fast as", ours.label, number(rate))
  end
  for _, one in ipairs(M.comparisons(row)) do
    add("  %-40s %7s × (%s); %s per second%s%s", one.label, number(one.ratio.median),
      range(one.ratio), number(one.rate),
      one.promised and ("; target %s: %s"):format(number(one.promised),
        verdict(one.ratio.median >= one.promised)) or "",
      one.least and ("; least served process: %s, ours %s"):format(number(one.least),
        number(median(ours, "least"))) or "")
  end
  for _, one in ipairs(M.figures(row)) do
    add("  %s: %s (%s)%s", one.label, number(one.spread.median), range(one.spread),
      one.at_most and ("; target at most %s: %s"):format(number(one.at_most),
        verdict(one.spread.median <= one.at_most)) or "")
  end
  for _, entrant in ipairs(row.entrants) do
    if broken(entrant) > 0 then
      add("  %s: TWO HELD IT AT ONCE, %d times", entrant.label, broken(entrant))
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

-- ---- markdown -----------------------------------------------------------------------

local function row_of(...)
  return "| " .. table.concat({ ... }, " | ") .. " |"
end

-- Appends a table of the rates, with a line for each entrant and a column for each row.
local function append_rates(lines, list)
  local head, rule, order, cells = { "holds per second" }, { "---" }, {}, {}
  for _, row in ipairs(list) do
    head[#head + 1], rule[#rule + 1] = row.title, "--:"
    for _, entrant in ipairs(row.entrants) do
      local label = entrant.label
      if not cells[label] then
        order[#order + 1], cells[label] = label, {}
      end
      cells[label][#head] = ("%s%s"):format(number(median(entrant, "rate")),
        row.processes > 1 and (" (%s)"):format(number(median(entrant, "least"))) or "")
    end
  end
  lines[#lines + 1], lines[#lines + 2] = row_of((table.unpack or unpack)(head)),
    row_of((table.unpack or unpack)(rule))
  for _, label in ipairs(order) do
    local line = { label }
    for i = 2, #head do line[i] = cells[label][i] or "" end
    lines[#lines + 1] = row_of((table.unpack or unpack)(line))
  end
end

-- Returns the cell of a target: `sign` is "≥" or "≤".
local function target(sign, value, is_reached)
  return ("%s %s, %s"):format(sign, number(value), is_reached and "reached" or "**missed**")
end

local function append_targets(lines, list)
  for _, row in ipairs(list) do
    for _, one in ipairs(M.comparisons(row)) do
      if one.promised then
        lines[#lines + 1] = row_of(row.title, "times as fast as " .. one.label,
          ("**%s**"):format(number(one.ratio.median)), range(one.ratio),
          target("≥", one.promised, one.ratio.median >= one.promised))
      end
    end
    for _, one in ipairs(M.figures(row)) do
      lines[#lines + 1] = row_of(row.title, one.label, ("**%s**"):format(number(one.spread.median)),
        range(one.spread),
        one.at_most and target("≤", one.at_most, one.spread.median <= one.at_most) or "")
    end
  end
end

-- Returns the versions of all entrants of |results|, sorted, each once.
local function versions(results)
  local seen, list = {}, {}
  for _, row in ipairs(results.rows) do
    for _, entrant in ipairs(row.entrants) do
      for version in table.concat(entrant.versions, ", "):gmatch "[^, ][^,]*" do
        if not seen[version] then list[#list + 1] = version end
        seen[version] = true
      end
    end
  end
  table.sort(list)
  return table.concat(list, ", ")
end

-- Returns the rows of |results| that |is_wanted|(row).
local function select_rows(results, is_wanted)
  local list = {}
  for _, row in ipairs(results.rows) do
    if is_wanted(row) then list[#list + 1] = row end
  end
  return list
end

--- Returns the text for bench/README.md: the rates of all entrants in the main rows with several
-- entrants, and the targets and figures of all rows.
function M.markdown(results)
  local about, lines = results.about, {}
  lines[1] = "![Rates of etcdlock and of Go's client](charts/beside_go.svg)\n"
  lines[2] = ("etcdlock %s on %s: %d cores, %s, %s, gRPC core %s, %s.\n"):format(about.etcdlock,
    about.date, about.cores, about.system, about.lua, about.grpc, versions(results))
  append_rates(lines, select_rows(results, function(row)
    return row.group == "main" and row.entrants[2]
  end))
  lines[#lines + 1] = "\nTargets and figures of etcdlock:\n"
  lines[#lines + 1] = row_of("work", "", "median", "in the rounds", "target")
  lines[#lines + 1] = row_of("---", "---", "--:", "--:", "--:")
  append_targets(lines, results.rows)
  for _, excuse in ipairs(results.excuses) do
    lines[#lines + 1] = ("\nNot in this run: %s%s: %s."):format(excuse.who,
      excuse.row and (" (%s)"):format(excuse.row) or "", excuse.why)
  end
  return table.concat(lines, "\n") .. "\n"
end

--- Returns a table of what a hold costs. It has a line for each entrant in the set |wanted| of the
-- rows in the set |ids|.
function M.costs(results, ids, wanted)
  local lines = {
    row_of("work", "client", "holds/s", "requests per hold", "CPU time of etcd per hold, µs",
      "CPU time of the client per hold, µs", "more memory, MB"),
    row_of("---", "---", "--:", "--:", "--:", "--:", "--:"),
  }
  for _, row in ipairs(results.rows) do
    for _, entrant in ipairs(ids[row.id] and row.entrants or {}) do
      if wanted[entrant.id] then
        local cells = { row.title, entrant.label }
        for i, field in ipairs { "rate", "asked", "server_us", "client_us", "memory" } do
          cells[2 + i] = number(median(entrant, field))
        end
        lines[#lines + 1] = row_of((table.unpack or unpack)(cells))
      end
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

return M
