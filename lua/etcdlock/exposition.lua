--- Prometheus' text format (version 0.0.4): how metrics are written.
local characters = require "etcdlock.characters"
local check = require "etcdlock.check"
local numbers = require "etcdlock.numbers"

local M = {}

local ESCAPES = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }

local function as_it_is(character)
  return character
end

local function in_hex(byte)
  return string.format("\\x%02X", byte:byte())
end

--- Bytes that are no UTF-8 would spoil the whole page: they are shown as \xHH.
local function readable(text)
  return characters.replace(text, "^[%z\1-\127]+", as_it_is, in_hex)
end

local function number(value)
  return value % 1 == 0 and string.format("%.0f", value) or numbers.format("%.9g", value)
end

--- `name="value",…` of a list of pairs.
local function label_text(pairs_list)
  local parts = {}
  for i, pair in ipairs(pairs_list) do
    parts[i] = string.format('%s="%s"', pair[1], (readable(pair[2]):gsub('[\\"\n]', ESCAPES)))
  end
  return table.concat(parts, ",")
end

--- The list of pairs that comes of the option `labels`, sorted. Raises for what can't be
-- one; `taken` are the names of our own.
function M.labels(where, labels, taken)
  local list = {}
  for name, value in pairs(labels or {}) do
    if type(name) ~= "string" or not name:find "^[A-Za-z_][A-Za-z0-9_]*$" or name:find "^__"
      or taken[name] then
      check.raise(string.format("%s: labels: %s can't be the name of a label here", where,
        characters.quote(tostring(name))))
    elseif type(value) ~= "string" and type(value) ~= "number" then
      check.raise(string.format("%s: labels.%s = %s, wanted a string", where, name,
        tostring(value)))
    end
    list[#list + 1] = { name, numbers.text(value) }
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

--- The page of `families`: a list of { name =, type =, help =, samples = { { value,
-- labels (a list of pairs), suffix of the name }, … } }, of which the last two may be
-- missing. `common` are labels of all of them.
function M.write(families, common)
  local lines, before = {}, label_text(common)
  for _, family in ipairs(families) do
    lines[#lines + 1] = string.format("# HELP %s %s", family.name, family.help)
    lines[#lines + 1] = string.format("# TYPE %s %s", family.name, family.type)
    for _, sample in ipairs(family.samples) do
      local own = label_text(sample[2] or {})
      local labels = before .. (before ~= "" and own ~= "" and "," or "") .. own
      lines[#lines + 1] = string.format("%s%s%s %s", family.name, sample[3] or "",
        labels ~= "" and "{" .. labels .. "}" or "", number(sample[1]))
    end
  end
  lines[#lines + 1] = ""
  return table.concat(lines, "\n")
end

--- Adds a line of a page to its family.
local function add_sample(family, line)
  local series, value = line:match "^(.*) (%S+)$"
  if series and not family.values[series] then
    family.series[#family.series + 1] = series
  end
  if series then
    family.values[series] = (family.values[series] or 0) + numbers.read(value)
  end
end

local function read(text, families)
  local family
  for line in text:gmatch "[^\n]+" do
    local name = line:match "^# HELP (%S+)"
    if name then
      family = families[name] or { help = line, series = {}, values = {} }
      if not families[name] then
        families[name], families[#families + 1] = family, family
      end
    elseif family and line:find "^# TYPE" then
      family.type = line
    elseif family then
      add_sample(family, line)
    end
  end
end

-- One page of several; see join_metrics in init.lua.
function M.join(texts)
  if type(texts) ~= "table" then
    check.raise("etcdlock.join_metrics: texts = " .. numbers.text(texts) .. ", wanted a list")
  end
  local families, lines = {}, {}
  for i, text in ipairs(texts) do
    check.string("etcdlock.join_metrics", "texts[" .. i .. "]", text)
    read(text, families)
  end
  for _, family in ipairs(families) do
    lines[#lines + 1], lines[#lines + 2] = family.help, family.type
    for _, series in ipairs(family.series) do
      lines[#lines + 1] = series .. " " .. number(family.values[series])
    end
  end
  lines[#lines + 1] = ""
  return table.concat(lines, "\n")
end

return M
