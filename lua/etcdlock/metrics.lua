--- Metrics of a client in Prometheus' text format (version 0.0.4): histograms of waits and holds
-- by label, the ages of the present ones, and the counters of client:stats.
--
-- A program can use millions of lock names, and each label value costs memory here and in
-- Prometheus. So the label of a lock is not its name. The option `metrics` gives the label: it is
-- the first pattern in the option that fits the name or, if the option is a function, its result.
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local format_number = require("etcdlock.text").format_number
local quote = require("etcdlock.text").quote
local replace = require("etcdlock.text").replace
local to_number = require("etcdlock.text").to_number
local to_string = require("etcdlock.text").to_string

local Metrics = {}
Metrics.__index = Metrics

-- A client has at most LABELS_MAX labels, and the label OTHER, which all other locks share.
local LABELS_MAX = 100
local LABEL_BYTES_MAX = 128
local OTHER = "other"

-- Upper bounds of the histogram buckets in seconds: from a lock without contention to a batch job.
local BOUNDS = {
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800,
}

-- Each entry: a field of client:stats, the name of the metric without "etcdlock_", the help text,
-- and how many units of the field one unit of the metric has (1).
local COUNTERS = {
  { "acquired", "acquisitions_total", "Locks acquired." },
  { "lost", "lost_locks_total", "Locks lost before they were released." },
  { "leaked", "leaked_locks_total", "Locks garbage-collected while they were held." },
  { "failed_attempts", "request_failures_total",
    "Failed requests to etcd; each attempt of a retried request counts." },
  { "batched", "batched_requests_total",
    "Requests to etcd sent in the round trip of another request." },
  { "rpcs", "round_trips_total", "Round trips to etcd." },
  { "authentications", "authentications_total",
    "Logins that have ended, also those that failed." },
  { "authentication_ms", "authentication_seconds_total",
    "Total time of these logins.", 1000 },
}
local GAUGES = {
  { "held", "held_locks", "Locks held now." },
  { "waiting", "waiters", "Calls that wait for a lock now." },
}

-- ---- labels of locks ----

-- Returns the Lua pattern for `pattern`, an entry of the option `metrics`: `*` fits any text, all
-- other characters fit themselves.
local function lua_pattern(pattern)
  return "^" .. pattern:gsub("[^A-Za-z0-9*]", "%%%0"):gsub("%*", ".*") .. "$"
end

-- Returns a function (name, mode) -> label, which returns nil if the lock has no label. `option` is
-- the option `metrics`: true, a list of patterns, or a function.
local function make_labeler(option)
  if type(option) == "function" then
    return function(name, mode)
      local ok, label = core.call(option, name, mode)
      return ok and type(label) == "string" and label ~= "" and #label <= LABEL_BYTES_MAX
        and label or nil
    end
  end
  local patterns = {}
  for i, pattern in ipairs(option == true and { "*" } or option) do
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

-- ---- measuring ----

local function new_histogram()
  local buckets = { sum = 0 }
  for i = 1, #BOUNDS + 1 do
    buckets[i] = 0
  end
  return buckets
end

local function observe(buckets, seconds)
  local i = 1
  while BOUNDS[i] and seconds > BOUNDS[i] do
    i = i + 1
  end
  buckets[i] = buckets[i] + 1
  buckets.sum = buckets.sum + seconds
end

--- Returns empty metrics. `option` is the option `metrics` of connect.
function Metrics.new(option)
  return setmetatable({
    _label_of = make_labeler(option),
    -- Value of the Prometheus label `lock` -> the figures with this label, a table with the fields
    --   label     the value
    --   wait      histogram of the times that calls have waited for a lock
    --   hold      histogram of the times for which locks were held
    --   failures  error code -> number of calls that have failed with this code
    --   hold_age, wait_age  ages of the oldest present hold and wait, as measure_ages found them
    _series = {},
    -- Set of the locks for which calls wait. The references are weak, because a coroutine that the
    -- program drops during its wait never ends it.
    _started = setmetatable({}, { __mode = "k" }),
    -- The same series in the order in which they were added.
    _list = {},
  }, Metrics)
end

-- Returns the figures for a lock. After LABELS_MAX labels, all further locks share the label OTHER.
local function series_of(self, name, mode)
  local label = self._label_of(name, mode) or OTHER
  local series = self._series[label]
  local limit = LABELS_MAX + (self._series[OTHER] and 1 or 0)
  if not series and #self._list >= limit then
    label = OTHER
    series = self._series[label]
  end
  if not series then
    series = {
      label = label, wait = new_histogram(), hold = new_histogram(), failures = {},
      hold_age = 0, wait_age = 0,
    }
    self._series[label] = series
    table.insert(self._list, series)
  end
  return series
end

-- Returns the figures of `lock`, for which a call waits no longer.
local function end_wait(self, lock)
  self._started[lock] = nil
  return series_of(self, lock:names()[1], lock._mode)
end

--- Records that `lock` was acquired after a wait of `seconds`.
function Metrics:observe_wait(lock, seconds)
  observe(end_wait(self, lock).wait, seconds)
end

--- Records that a hold ended after `seconds`.
function Metrics:observe_hold(name, mode, seconds)
  observe(series_of(self, name, mode).hold, seconds)
end

--- Counts a call that failed to acquire a lock, by the `code` that it returned.
function Metrics:count_failure(lock, code)
  local failures = end_wait(self, lock).failures
  failures[code] = (failures[code] or 0) + 1
end

-- ---- the ages of present holds and waits ----

--- Records that a call waits for `lock` from now on.
function Metrics:begin_wait(lock)
  self._started[lock] = true
end

local function note_age(self, field, lock, seconds)
  if lock._mode ~= "leader" then -- a leader holds, and its candidates wait, without limit
    local series = series_of(self, lock:names()[1], lock._mode)
    series[field] = math.max(series[field], seconds)
  end
end

--- Measures the ages of all present holds, which are in `held_locks` (held_locks.lua), and waits.
function Metrics:measure_ages(held_locks)
  for _, series in ipairs(self._list) do
    series.hold_age, series.wait_age = 0, 0
  end
  for lock in pairs(self._started) do
    -- nil: the wait goes on. A wait that ended with its nginx request stays in `_started`.
    if lock._core:wait(0) == nil then
      note_age(self, "wait_age", lock, core.now() - lock._started_at)
    end
  end
  -- After the waits: so no wait seems to be older than the hold for whose end it waits.
  held_locks:visit(function(lock)
    note_age(self, "hold_age", lock, lock._core:held_for())
  end)
end

-- ---- the text format ----

local ESCAPES = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }

local function keep_character(character)
  return character
end

local function hex_of(byte)
  return string.format("\\x%02X", byte:byte())
end

-- Replaces each byte that is not UTF-8 by \xHH, because Prometheus rejects the whole page for one
-- such byte.
local function to_utf8(text)
  return replace(text, "^[%z\1-\127]+", keep_character, hex_of)
end

local function format_value(value)
  return value % 1 == 0 and string.format("%.0f", value) or format_number("%.9g", value)
end

-- Returns `name="value",…` for `labels`, a list of { name, value }.
local function format_labels(labels)
  local parts = {}
  for i, pair in ipairs(labels) do
    parts[i] = string.format('%s="%s"', pair[1], (to_utf8(pair[2]):gsub('[\\"\n]', ESCAPES)))
  end
  return table.concat(parts, ",")
end

-- Returns the page of `families`, a list of
-- { name =, type =, help =, samples = { { value, labels, suffix of the name }, … } }. In a sample,
-- `labels` (a list of { name, value }) and the suffix may be missing. Each sample also gets
-- `common_labels`.
local function format_families(families, common_labels)
  local lines, common = {}, format_labels(common_labels)
  for _, family in ipairs(families) do
    lines[#lines + 1] = string.format("# HELP %s %s", family.name, family.help)
    lines[#lines + 1] = string.format("# TYPE %s %s", family.name, family.type)
    for _, sample in ipairs(family.samples) do
      local own = format_labels(sample[2] or {})
      local labels = common .. (common ~= "" and own ~= "" and "," or "") .. own
      lines[#lines + 1] = string.format("%s%s%s %s", family.name, sample[3] or "",
        labels ~= "" and "{" .. labels .. "}" or "", format_value(sample[1]))
    end
  end
  lines[#lines + 1] = ""
  return table.concat(lines, "\n")
end

-- ---- the page of a client ----

-- Names of the labels of etcdlock's own metrics. The option `labels` must not contain them.
local RESERVED = { lock = true, le = true, code = true, kind = true }

--- Returns the option `labels` of client:metrics as a list of { name, value }, sorted by name.
-- `where` names the call in messages. Raises an error for an invalid label.
function Metrics.check_labels(where, labels)
  local list = {}
  for name, value in pairs(labels or {}) do
    if type(name) ~= "string" or not name:find "^[A-Za-z_][A-Za-z0-9_]*$" or name:find "^__"
      or RESERVED[name] then
      check.raise(string.format("%s: labels: %s is reserved or not a valid label name;"
        .. " choose another one of letters, digits and _", where, quote(tostring(name))))
    elseif type(value) ~= "string" and type(value) ~= "number" then
      check.raise(string.format("%s: labels.%s = %s, wanted a string", where, name,
        tostring(value)))
    end
    list[#list + 1] = { name, to_string(value) }
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

local function add_histogram(samples, label, buckets)
  local count = 0
  for i = 1, #BOUNDS + 1 do
    count = count + buckets[i]
    local le = BOUNDS[i] and format_number("%g", BOUNDS[i]) or "+Inf"
    samples[#samples + 1] = { count, { { "lock", label }, { "le", le } }, "_bucket" }
  end
  samples[#samples + 1] = { buckets.sum, { { "lock", label } }, "_sum" }
  samples[#samples + 1] = { count, { { "lock", label } }, "_count" }
end

local function add_lock_families(self, families)
  local wait, hold, wait_age, hold_age, failures = {}, {}, {}, {}, {}
  for _, series in ipairs(self._list) do
    add_histogram(wait, series.label, series.wait)
    add_histogram(hold, series.label, series.hold)
    wait_age[#wait_age + 1] = { series.wait_age, { { "lock", series.label } } }
    hold_age[#hold_age + 1] = { series.hold_age, { { "lock", series.label } } }
    for _, code in ipairs(check.sorted_keys(series.failures)) do
      local labels = { { "lock", series.label }, { "code", code } }
      failures[#failures + 1] = { series.failures[code], labels }
    end
  end
  table.insert(families, { name = "etcdlock_wait_seconds", type = "histogram", samples = wait,
    help = "Seconds from the call to the grant of a lock." })
  table.insert(families, { name = "etcdlock_hold_seconds", type = "histogram", samples = hold,
    help = "Seconds from the grant of a lock to its release or loss." })
  table.insert(families, { name = "etcdlock_oldest_wait_seconds", type = "gauge",
    samples = wait_age, help = "Age of the oldest present wait for a lock; 0 without one." })
  table.insert(families, { name = "etcdlock_oldest_hold_seconds", type = "gauge",
    samples = hold_age, help = "Age of the oldest present hold of a lock; 0 without one." })
  table.insert(families, { name = "etcdlock_acquire_failures_total", type = "counter",
    samples = failures, help = "Calls that failed to acquire a lock, by code." })
end

local function add_stats_families(families, list, kind, stats)
  for _, row in ipairs(list) do
    table.insert(families, { name = "etcdlock_" .. row[2], type = kind, help = row[3],
      samples = { { stats[row[1]] / (row[4] or 1) } } })
  end
end

--- Returns the page of a client. `metrics`: the client's object of this class, or nil. `stats`: the
-- result of client:stats. `kinds`: a list of the fields of `stats` that count requests, one field
-- for each kind. `remaining`: seconds for which the session's lease is proven, 0 without a session.
-- `labels`: the result of check_labels; all samples get these labels.
function Metrics.format_page(metrics, stats, kinds, remaining, labels)
  local families, requests = {}, {}
  if metrics then
    add_lock_families(metrics, families)
  end
  add_stats_families(families, COUNTERS, "counter", stats)
  for i, kind in ipairs(kinds) do
    requests[i] = { stats[kind], { { "kind", kind } } }
  end
  table.insert(families, { name = "etcdlock_requests_total", type = "counter", samples = requests,
    help = "Requests sent to etcd, by kind." })
  add_stats_families(families, GAUGES, "gauge", stats)
  table.insert(families, { name = "etcdlock_session_remaining_seconds", type = "gauge",
    samples = { { remaining } },
    help = "Seconds for which the session's lease is proven; 0 without a session." })
  return format_families(families, labels)
end

-- ---- one page of several ----

-- Joins the remaining times of two sessions; 0 means that a client has no session.
local function min_of_sessions(a, b)
  return (a == 0 or b == 0) and math.max(a, b) or math.min(a, b)
end

-- Name of a metric -> the function that joins two values of one series. Other metrics are added up.
local JOIN = {
  etcdlock_oldest_wait_seconds = math.max,
  etcdlock_oldest_hold_seconds = math.max,
  etcdlock_session_remaining_seconds = min_of_sessions,
}

local function add(a, b)
  return a + b
end

-- Adds the sample in `line` to `family`. If the family has a sample of the same series already, the
-- values are joined.
local function add_sample(family, line)
  local series, text = line:match "^(.*) (%S+)$"
  if series then
    local value, other = to_number(text), family.values[series]
    if not other then
      family.series[#family.series + 1] = series
    end
    family.values[series] = other and family.join(value, other) or value
  end
end

-- Adds the families of the page `text` to `families`, a list that is also indexed by name.
local function read_page(text, families)
  local family
  for line in text:gmatch "[^\n]+" do
    local name = line:match "^# HELP (%S+)"
    if name then
      family = families[name] or {
        help = line, series = {}, values = {}, join = JOIN[name] or add,
      }
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

--- Returns one page that contains all values of `texts`, a list of pages; see join_metrics in
-- init.lua.
function Metrics.join(texts)
  if type(texts) ~= "table" then
    check.raise("etcdlock.join_metrics: texts = " .. to_string(texts) .. ", wanted a list")
  end
  local families, lines = {}, {}
  for i, text in ipairs(texts) do
    check.string("etcdlock.join_metrics", "texts[" .. i .. "]", text)
    read_page(text, families)
  end
  for _, family in ipairs(families) do
    lines[#lines + 1], lines[#lines + 2] = family.help, family.type
    for _, series in ipairs(family.series) do
      lines[#lines + 1] = series .. " " .. format_value(family.values[series])
    end
  end
  lines[#lines + 1] = ""
  return table.concat(lines, "\n")
end

return Metrics
