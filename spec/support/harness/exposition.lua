-- Parses a page of metrics with Prometheus' own parser.

local assert = require "luassert"
local json = require "dkjson"
local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"
local write_file = require "bench.write_file"

local Page = {}
Page.__index = Page

local M = {}

-- Parses |text| and returns the page. Fails if Prometheus cannot parse it.
function M.read(text)
  local path = temporary.directory() .. "/metrics"
  write_file(path, text)
  local out, code, err = proc.run { proc.PYTHON, "spec/support/programs/prometheus.py", path }
  assert.equal(0, code, err .. text)
  return setmetatable({ families = json.decode(out) }, Page)
end

local function has(labels, wanted)
  for name, value in pairs(wanted or {}) do
    if labels[name] ~= value then return false end
  end
  return true
end

-- Returns the values of the samples |name| of |family| that have these |labels|.
function Page:values(family, name, labels)
  local values = {}
  for _, sample in ipairs(assert(self.families[family], family).samples) do
    if sample[1] == name and has(sample[2], labels) then values[#values + 1] = sample[3] end
  end
  return values
end

-- Returns the value of the sample |name| with these |labels|. Fails unless there is exactly one.
function Page:value(name, labels)
  local family = name:gsub("_total$", ""):gsub("_bucket$", ""):gsub("_sum$", "")
    :gsub("_count$", "")
  local values = self:values(family, name, labels)
  assert.equal(1, #values, name)
  return values[1]
end

return M
