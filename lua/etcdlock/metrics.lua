--- Metrics of a client in Prometheus' text format (version 0.0.4): figures of locks by label, such
-- as histograms of waits and holds, and the counters of client:stats.
--
-- A program can use millions of lock names, and each label value costs memory here and in
-- Prometheus. So the label of a lock is not its name. The option `metrics` gives the label: it is
-- the first pattern in the option that fits the name or, if the option is a function, its result.
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local format_number = require("etcdlock.text").format_number
local make_control_filter = require("etcdlock.text").make_control_filter
local names = require "etcdlock.names"
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
-- and how many units of the field one unit of the metric has (nil: 1).
local COUNTERS = {
  { "acquired", "acquisitions_total", "Locks acquired." },
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
-- Counters that have the label `lock` if the client has the option `metrics`. Each entry: a field
-- of client:stats and of a series, the name of the metric without "etcdlock_", and the help text.
local ENDS = {
  { "lost", "lost_locks_total", "Locks lost before they were released." },
  { "leaked", "leaked_locks_total", "Locks garbage-collected while they were held." },
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

--- Returns empty metrics. `option` and `prefix` are the options `metrics` and `prefix` of connect.
function Metrics.new(option, prefix)
  return setmetatable({
    _label_of = make_labeler(option),
    _prefix = prefix,
    -- Value of the Prometheus label `lock` -> the figures with this label, a table with the fields
    --   label     the value
    --   wait      histogram of the times that calls have waited for a lock
    --   hold      histogram of the times for which locks were held
    --   failures  error code -> number of calls that have failed with this code
    --   lost, leaked    number of holds that ended in this way
    --   failed_writes   error code -> number of guarded writes that have failed with this code
    -- and these, as `measure` found them:
    --   hold_age, wait_age  ages of the oldest present hold and wait, without those of elections
    --   leaderships  number of elections that this client leads; nil: it never was a candidate
    --   is_leader_known  1 if all observers know a leader, else 0; nil: there is no observer
    _series = {},
    -- Set of the locks for which calls wait. The references are weak, because a coroutine that the
    -- program drops during its wait never ends it.
    _started = setmetatable({}, { __mode = "k" }),
    -- The observers of elections -> the full name of the election. The references are weak, too.
    _observers = setmetatable({}, { __mode = "k" }),
    -- The series of `_series` in the order in which they were added.
    _list = {},
  }, Metrics)
end

-- Returns the figures of `label`. After LABELS_MAX labels, all further locks share the label OTHER.
local function find_series(self, label)
  local series = self._series[label]
  local limit = LABELS_MAX + (self._series[OTHER] and 1 or 0)
  if not series and #self._list >= limit then
    label = OTHER
    series = self._series[label]
  end
  if not series then
    series = {
      label = label, wait = new_histogram(), hold = new_histogram(), failures = {},
      lost = 0, leaked = 0, failed_writes = {}, hold_age = 0, wait_age = 0,
    }
    self._series[label] = series
    table.insert(self._list, series)
  end
  return series
end

-- Returns the figures for a lock. Its label, unless it is OTHER, begins with the client's prefix.
local function series_of(self, full_name, mode)
  local label = self._label_of(full_name:sub(#self._prefix + 1), mode)
  return find_series(self, label and self._prefix .. label or OTHER)
end

-- Records that no call waits for `lock` any more, and returns the figures for the lock.
local function end_wait(self, lock)
  self._started[lock] = nil
  return series_of(self, names.first_of(lock), lock._mode)
end

--- Records that `lock` was acquired after a wait of `seconds`.
function Metrics:observe_wait(lock, seconds)
  observe(end_wait(self, lock).wait, seconds)
end

--- Records that a hold of the lock `full_name` ended after `seconds`. `reason` is "lost", "leaked",
-- or another value.
function Metrics:observe_hold(full_name, mode, seconds, reason)
  local series = series_of(self, full_name, mode)
  observe(series.hold, seconds)
  if reason == "lost" or reason == "leaked" then
    series[reason] = series[reason] + 1
  end
end

--- Counts `count` holds that ended for `reason`, "lost" or "leaked", and whose locks are unknown.
function Metrics:count_ends(reason, count)
  local series = find_series(self, OTHER)
  series[reason] = series[reason] + count
end

--- Counts a call that failed to acquire a lock, by the `code` that it returned.
function Metrics:count_failure(lock, code)
  local failures = end_wait(self, lock).failures
  failures[code] = (failures[code] or 0) + 1
end

--- Counts a guarded write of `lock` that failed, by the `code` that it returned.
function Metrics:count_failed_write(lock, code)
  local failed_writes = series_of(self, names.first_of(lock), lock._mode).failed_writes
  failed_writes[code] = (failed_writes[code] or 0) + 1
end

-- ---- present holds, waits and leaders ----

--- Records that a call waits for `lock` from now on.
function Metrics:begin_wait(lock)
  self._started[lock] = true
  if lock._mode == "leader" then
    local series = series_of(self, names.first_of(lock), lock._mode)
    series.leaderships = series.leaderships or 0
  end
end

--- Adds an observer of the election `full_name`.
function Metrics:add_observer(observer, full_name)
  self._observers[observer] = full_name
end

local function note_age(self, field, lock, seconds)
  if lock._mode ~= "leader" then -- a leader holds, and its candidates wait, without limit
    local series = series_of(self, names.first_of(lock), lock._mode)
    series[field] = math.max(series[field], seconds)
  end
end

local function measure_observers(self)
  for observer, full_name in pairs(self._observers) do
    local is_known = observer:_knows_leader()
    if is_known ~= nil then
      local series = series_of(self, full_name, "leader")
      series.is_leader_known = math.min(series.is_leader_known or 1, is_known and 1 or 0)
    end
  end
end

--- Measures the ages of all present holds, which are in `held_locks` (held_locks.lua), and waits.
-- Also finds out which elections this client leads, and whether its observers know a leader.
function Metrics:measure(held_locks)
  for _, series in ipairs(self._list) do
    series.hold_age, series.wait_age = 0, 0
    series.leaderships = series.leaderships and 0
    series.is_leader_known = nil
  end
  for lock in pairs(self._started) do
    -- nil: the wait goes on. A wait that ended with its nginx request stays in `_started`.
    if lock._core:wait(0) == nil then
      note_age(self, "wait_age", lock, core.now() - lock._started_at)
    end
  end
  -- After the waits: so no wait seems to be older than a hold that began before it.
  held_locks:visit(function(lock)
    note_age(self, "hold_age", lock, lock._core:held_for())
    if lock._mode == "leader" then
      local series = series_of(self, names.first_of(lock), lock._mode)
      series.leaderships = (series.leaderships or 0) + 1
    end
  end)
  measure_observers(self)
end

-- ---- the text format ----

local ESCAPES = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }

local function hex_of(bytes)
  return (bytes:gsub(".", function(byte)
    return string.format("\\x%02X", byte:byte())
  end))
end

local escape_controls = make_control_filter(hex_of)

-- Replaces bytes by \xHH: those that are not UTF-8, because Prometheus rejects the whole page for
-- one such byte, and those of control characters except newline, because people also read the page
-- at a terminal.
local function to_safe_text(text)
  return replace(text, "^[\n\32-\126]+", escape_controls, hex_of)
end

local function format_value(value)
  return value % 1 == 0 and string.format("%.0f", value) or format_number("%.9g", value)
end

-- Returns `name="value",…` for `labels`, a list of { name, value }.
local function format_labels(labels)
  local parts = {}
  for i, pair in ipairs(labels) do
    parts[i] = string.format('%s="%s"', pair[1], (to_safe_text(pair[2]):gsub('[\\"\n]', ESCAPES)))
  end
  return table.concat(parts, ",")
end

-- Returns the labels of `common` whose names are not in `own`, then those of `own`.
local function merge_labels(common, own)
  local list, is_own = {}, {}
  for _, pair in ipairs(own) do
    is_own[pair[1]] = true
  end
  for _, pair in ipairs(common) do
    list[#list + 1] = not is_own[pair[1]] and pair or nil
  end
  for _, pair in ipairs(own) do
    list[#list + 1] = pair
  end
  return list
end

-- Returns the page of `families`, a list of
-- { name =, type =, help =, samples = { { value, labels, suffix of the name }, … } }. In a sample,
-- `labels` (a list of { name, value }) and the suffix may be missing. Each sample also gets
-- `common_labels`, unless it has a label of that name.
local function format_families(families, common_labels)
  local lines, common = {}, format_labels(common_labels)
  for _, family in ipairs(families) do
    lines[#lines + 1] = string.format("# HELP %s %s", family.name, family.help)
    lines[#lines + 1] = string.format("# TYPE %s %s", family.name, family.type)
    for _, sample in ipairs(family.samples) do
      local labels = sample[2] and format_labels(merge_labels(common_labels, sample[2])) or common
      lines[#lines + 1] = string.format("%s%s%s %s", family.name, sample[3] or "",
        labels ~= "" and "{" .. labels .. "}" or "", format_value(sample[1]))
    end
  end
  lines[#lines + 1] = ""
  return table.concat(lines, "\n")
end

-- ---- the page of a client ----

-- Names of labels of etcdlock's own metrics that the option `labels` must not contain.
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

-- Returns the samples of `field`, a field of the series that contains a number. A series without it
-- has no sample.
local function number_samples(self, field)
  local samples = {}
  for _, series in ipairs(self._list) do
    if series[field] then
      samples[#samples + 1] = { series[field], { { "lock", series.label } } }
    end
  end
  return samples
end

-- Returns the samples of a field that contains a table code -> number.
local function code_samples(self, field)
  local samples = {}
  for _, series in ipairs(self._list) do
    for _, code in ipairs(check.sorted_keys(series[field])) do
      local labels = { { "lock", series.label }, { "code", code } }
      samples[#samples + 1] = { series[field][code], labels }
    end
  end
  return samples
end

local function histogram_samples(self, field)
  local samples = {}
  for _, series in ipairs(self._list) do
    add_histogram(samples, series.label, series[field])
  end
  return samples
end

-- The metrics that need the option `metrics`. Each entry: the name without "etcdlock_", the type,
-- the function that returns the samples, the field of a series, and the help text.
local LOCK_FAMILIES = {
  { "wait_seconds", "histogram", histogram_samples, "wait",
    "Seconds from the call to the grant of a lock." },
  { "hold_seconds", "histogram", histogram_samples, "hold",
    "Seconds from the grant of a lock to its release or loss." },
  { "oldest_wait_seconds", "gauge", number_samples, "wait_age",
    "Age of the oldest present wait for a lock; 0 without one." },
  { "oldest_hold_seconds", "gauge", number_samples, "hold_age",
    "Age of the oldest present hold of a lock; 0 without one." },
  { "acquire_failures_total", "counter", code_samples, "failures",
    "Calls that failed to acquire a lock, by code." },
  { "guarded_write_failures_total", "counter", code_samples, "failed_writes",
    "Guarded writes that failed, by code." },
  { "leaderships", "gauge", number_samples, "leaderships",
    "Elections that this client leads now." },
  { "leader_known", "gauge", number_samples, "is_leader_known",
    "Whether all observers of the election know a leader: 1 or 0." },
}

local function add_lock_families(self, families)
  for _, row in ipairs(LOCK_FAMILIES) do
    families[#families + 1] = {
      name = "etcdlock_" .. row[1], type = row[2], samples = row[3](self, row[4]), help = row[5],
    }
  end
end

-- Adds the counters of ENDS. Without the option `metrics`, `self` is nil, and each counter has one
-- sample, from `stats`.
local function add_end_families(self, families, stats)
  for _, row in ipairs(ENDS) do
    families[#families + 1] = {
      name = "etcdlock_" .. row[2], type = "counter", help = row[3],
      samples = self and number_samples(self, row[1]) or { { stats[row[1]] } },
    }
  end
end

local function add_stats_families(families, list, kind, stats)
  for _, row in ipairs(list) do
    table.insert(families, { name = "etcdlock_" .. row[2], type = kind, help = row[3],
      samples = { { stats[row[1]] / (row[4] or 1) } } })
  end
end

local function lua_version()
  local jit = rawget(_G, "jit")
  return jit and jit.version or _VERSION
end

--- Returns the page of a client. Fields of `figures`:
--   metrics    the client's object of this class, or nil
--   stats      the result of client:stats
--   kinds      list of the fields of `stats` that count requests, one field for each kind
--   remaining  the TTL minus the seconds since the last answered keepalive, 0 without a session
--   ttl        the option `ttl`
--   version    version of etcdlock
--   labels     the result of check_labels; all samples get these labels
function Metrics.format_page(figures)
  local families, requests = {}, {}
  local metrics, stats, kinds = figures.metrics, figures.stats, figures.kinds
  if metrics then
    add_lock_families(metrics, families)
  end
  add_end_families(metrics, families, stats)
  add_stats_families(families, COUNTERS, "counter", stats)
  for i, kind in ipairs(kinds) do
    requests[i] = { stats[kind], { { "kind", kind } } }
  end
  table.insert(families, { name = "etcdlock_requests_total", type = "counter", samples = requests,
    help = "Requests sent to etcd, by kind." })
  add_stats_families(families, GAUGES, "gauge", stats)
  table.insert(families, { name = "etcdlock_session_remaining_seconds", type = "gauge",
    samples = { { figures.remaining } },
    help = "TTL minus the seconds since the last answered keepalive; 0 without a session." })
  table.insert(families, { name = "etcdlock_session_ttl_seconds", type = "gauge",
    samples = { { figures.ttl } }, help = "TTL of the session's lease, the option ttl." })
  table.insert(families, { name = "etcdlock_build_info", type = "gauge",
    samples = { { 1, { { "version", figures.version }, { "lua", lua_version() } } } },
    help = "Versions of etcdlock and Lua, as labels; the value is 1." })
  return format_families(families, figures.labels)
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
  etcdlock_session_ttl_seconds = math.min,
  etcdlock_leader_known = math.min,
  etcdlock_build_info = math.max,
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

--- Returns one page of the pages in the list `texts`, in which values of the same series are one
-- value; see join_metrics in init.lua.
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
