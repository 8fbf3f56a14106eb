--- How long the locks of a client were waited for and held, by label; and the page that
-- tells of it and of the client's counters.
--
-- Names of locks can be millions, and each series costs memory here and in Prometheus: so
-- the label of a name is the first pattern that fits it, or what a function makes of it.
local core = require "etcdlock.core"
local exposition = require "etcdlock.exposition"
local numbers = require "etcdlock.numbers"

local Metrics = {}
Metrics.__index = Metrics

-- So many different labels, and one for whatever has none.
local LABELS_MAX = 100
local LABEL_BYTES_MAX = 128
local OTHER = "other"

-- In seconds: from a lock that nobody else wants to a batch job's.
local BOUNDS = {
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800,
}

-- What client:stats() counts one after the other.
local COUNTERS = {
  { "acquired", "acquisitions_total", "Locks that were taken." },
  { "lost", "lost_locks_total", "Holds that were lost before they were released." },
  { "leaked", "leaked_locks_total", "Locks that were garbage-collected while they were held." },
  { "failed_attempts", "request_failures_total", "Requests to etcd that have failed, each try." },
  { "batched", "batched_requests_total", "Requests sent in the round trip of another one." },
  { "rpcs", "round_trips_total", "Round trips to etcd." },
}
local GAUGES = {
  { "held", "held_locks", "Locks that are held now." },
  { "waiting", "waiters", "Locks that are waited for now." },
}

--- The names that labels of callers must not have.
Metrics.TAKEN = { lock = true, le = true, code = true, kind = true }

-- ---- which label ----

--- A pattern of connect's list as Lua knows it: `*` stands for any bytes.
local function lua_pattern(pattern)
  return "^" .. pattern:gsub("[^A-Za-z0-9*]", "%%%0"):gsub("%*", ".*") .. "$"
end

--- What finds the label of a name: `names` is connect's option, true, a list of patterns,
-- or a function.
local function labeler(names)
  if type(names) == "function" then
    return function(name, mode)
      local ok, label = core.call(names, name, mode)
      return ok and type(label) == "string" and label ~= "" and #label <= LABEL_BYTES_MAX
        and label or nil
    end
  end
  local patterns = {}
  for i, pattern in ipairs(names == true and { "*" } or names) do
    patterns[i] = { lua_pattern(pattern), pattern }
  end
  return function(name)
    for _, pattern in ipairs(patterns) do
      if name:find(pattern[1]) then
        return pattern[2]
      end
    end
  end
end

local function histogram()
  local buckets = { sum = 0 }
  for i = 1, #BOUNDS + 1 do
    buckets[i] = 0
  end
  return buckets
end

function Metrics.new(names)
  return setmetatable({
    _label = labeler(names),
    _series = {}, -- label -> { label =, wait =, hold =, codes = { code -> number } }
    _list = {}, -- the same, in the order in which they came
  }, Metrics)
end

local function series_of(self, name, mode)
  local label = self._label(name, mode) or OTHER
  local series = self._series[label]
  local limit = LABELS_MAX + (self._series[OTHER] and 1 or 0)
  if not series and #self._list >= limit then
    label = OTHER
    series = self._series[label]
  end
  if not series then
    series = { label = label, wait = histogram(), hold = histogram(), codes = {} }
    self._series[label] = series
    table.insert(self._list, series)
  end
  return series
end

-- ---- counting ----

local function observe(buckets, seconds)
  local i = 1
  while BOUNDS[i] and seconds > BOUNDS[i] do
    i = i + 1
  end
  buckets[i] = buckets[i] + 1
  buckets.sum = buckets.sum + seconds
end

--- A lock was taken after so many seconds.
function Metrics:waited(name, mode, seconds)
  observe(series_of(self, name, mode).wait, seconds)
end

--- A lock was held for so many seconds.
function Metrics:held(name, mode, seconds)
  observe(series_of(self, name, mode).hold, seconds)
end

--- A lock that was asked for wasn't taken.
function Metrics:failed(name, mode, code)
  local codes = series_of(self, name, mode).codes
  codes[code] = (codes[code] or 0) + 1
end

-- ---- the page ----

local function add_histogram(samples, label, buckets)
  local count = 0
  for i = 1, #BOUNDS + 1 do
    count = count + buckets[i]
    local le = BOUNDS[i] and numbers.format("%g", BOUNDS[i]) or "+Inf"
    samples[#samples + 1] = { count, { { "lock", label }, { "le", le } }, "_bucket" }
  end
  samples[#samples + 1] = { buckets.sum, { { "lock", label } }, "_sum" }
  samples[#samples + 1] = { count, { { "lock", label } }, "_count" }
end

local function sorted_keys(of)
  local keys = {}
  for key in pairs(of) do
    keys[#keys + 1] = key
  end
  table.sort(keys)
  return keys
end

local function add_families(self, families)
  local wait, hold, failed = {}, {}, {}
  for _, series in ipairs(self._list) do
    add_histogram(wait, series.label, series.wait)
    add_histogram(hold, series.label, series.hold)
    for _, code in ipairs(sorted_keys(series.codes)) do
      local labels = { { "lock", series.label }, { "code", code } }
      failed[#failed + 1] = { series.codes[code], labels }
    end
  end
  table.insert(families, { name = "etcdlock_wait_seconds", type = "histogram", samples = wait,
    help = "How long locks were waited for that were taken then." })
  table.insert(families, { name = "etcdlock_hold_seconds", type = "histogram", samples = hold,
    help = "How long locks were held until they were released or lost." })
  table.insert(families, { name = "etcdlock_acquire_failures_total", type = "counter",
    samples = failed, help = "Locks that were asked for and not taken, by the code of why." })
end

local function add_each(families, list, kind, stats)
  for _, one in ipairs(list) do
    table.insert(families, { name = "etcdlock_" .. one[2], type = kind, help = one[3],
      samples = { { stats[one[1]] } } })
  end
end

--- The page: `metrics` are those of the client, or nil; `stats` what it counts, whose
-- `requests` are the names of the kinds of request; `left` for how many seconds its
-- session is known to live; `labels`, of exposition.labels, stand with all of it.
function Metrics.page(metrics, stats, requests, left, labels)
  local families, kinds = {}, {}
  if metrics then
    add_families(metrics, families)
  end
  add_each(families, COUNTERS, "counter", stats)
  for i, kind in ipairs(requests) do
    kinds[i] = { stats[kind], { { "kind", kind } } }
  end
  table.insert(families, { name = "etcdlock_requests_total", type = "counter", samples = kinds,
    help = "Requests sent to etcd, by kind." })
  add_each(families, GAUGES, "gauge", stats)
  table.insert(families, { name = "etcdlock_session_remaining_seconds", type = "gauge",
    samples = { { left } }, help = "For how long the lease is known to live; 0: there is none." })
  return exposition.write(families, labels)
end

return Metrics
