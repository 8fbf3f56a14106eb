-- Checks a counter in etcd for each lock name. Clients increment the counter by guarded writes,
-- only under a hold that excludes others. The counter must never become smaller, must keep each
-- acknowledged increment, and must not be changed by another client during a hold.

local faults = require "spec.stress.faults"
local history = require "spec.stress.history"
local holds = require "spec.stress.holds"
local loop = require "spec.stress.loop"
local plan = require "spec.stress.plan"
local record = require "spec.stress.record"

local M = {}

-- The codes with which a guarded call may fail.
local CODES = { lost = true, not_held = true, unavailable = true, closed = true }

-- By name. largest: the largest value that was acknowledged or read. acknowledged: number of
-- increments that etcd has acknowledged. unknown: number of increments of unknown outcome.
local states = {}

local function state_of(name)
  states[name] = states[name] or { largest = 0, acknowledged = 0, unknown = 0 }
  return states[name]
end

local function suspect(name, text, ...)
  if faults.may_be_stale() then
    history.count "excused reads"
    history.note(name, "excused: " .. text, ...)
  else
    history.violation(name, text, ...)
  end
end

-- Checks the |message| and the |code| with which the guarded call |call| of |hold| has failed.
function M.check_failure(hold, call, message, code)
  history.count(call .. " " .. tostring(code))
  holds.note(hold, "%s: %s (%s)", call, tostring(code), tostring(message))
  local is_proper = CODES[code] and type(message) == "string"
    and (code ~= "closed" or hold.client.is_closed)
  if not is_proper then
    history.violation(hold.names[1], "%s: %s answers %s (%s)", holds.describe(hold), call,
      tostring(code), tostring(message))
  end
end

-- Reads the counter |name| under |hold| of |lock|. Returns the value, or nil.
function M.read(hold, lock, name)
  local state = state_of(name)
  local before, from = state.largest, loop.now()
  local value, message, code = lock:get(plan.COUNTERS .. name)
  if value == nil then return M.check_failure(hold, "get", message, code) end
  value = tonumber(value or 0)
  record.counter("read", hold, name, from, { value = value })
  if value < before then
    suspect(name, "%s reads %d, %d was there before", holds.describe(hold), value, before)
  end
  state.largest = math.max(state.largest, value)
  return value
end

-- Reads the counter |name| twice under |hold|, with pause() in between, and checks that no other
-- client has changed it.
function M.watch(hold, lock, name, pause)
  local first = M.read(hold, lock, name)
  if not first then return end
  pause()
  local second = M.read(hold, lock, name)
  if second and second ~= first and not hold.has_unknown then
    suspect(name, "%s: the counter was %d and is %d under one hold", holds.describe(hold), first,
      second)
  end
end

local function write_all(lock, names, values)
  if #names == 1 and values[names[1]] % 2 == 0 then
    return lock:put(plan.COUNTERS .. names[1], tostring(values[names[1]]))
  end
  local list = {}
  for _, name in ipairs(names) do
    list[#list + 1] = { "get", plan.COUNTERS .. name }
    list[#list + 1] = { "put", plan.COUNTERS .. name, ("%d"):format(values[name]) }
  end
  return lock:txn(list)
end

-- Increments the counters of all names of |hold|.
function M.increment(hold, lock)
  local values = {}
  for _, name in ipairs(hold.names) do
    local value = M.read(hold, lock, name)
    if not value then return end
    values[name] = value + 1
  end
  local is_unknown, from = nil, loop.now()
  local results, message, code = write_all(lock, hold.names, values)
  if not results then
    M.check_failure(hold, "write", message, code)
    is_unknown = code == "unavailable" or code == "closed"
    hold.has_unknown = hold.has_unknown or is_unknown
  end
  for i, name in ipairs(hold.names) do
    local state = state_of(name)
    if not results then
      state.unknown = state.unknown + (is_unknown and 1 or 0)
      if is_unknown then
        record.counter("write", hold, name, from, { value = values[name], unknown = true })
      end
    else
      history.count "increments"
      local found = type(results) == "table" and tonumber(results[2 * i - 1] or 0)
      if found and found ~= values[name] - 1 and not hold.has_unknown then
        suspect(name, "%s writes %d over %d", holds.describe(hold), values[name], found)
      end
      record.counter("write", hold, name, from, { value = values[name], found = found or nil })
      state.acknowledged = state.acknowledged + 1
      state.largest = math.max(state.largest, values[name])
      holds.note(hold, "counter %s = %d", name, values[name])
    end
  end
end

-- Returns the largest value of each counter so far, for check_values.
function M.largest()
  local list = {}
  for name, state in pairs(states) do list[name] = state.largest end
  return list
end

-- Checks the values |found| (by name), read from etcd: none may be smaller than in |before|, which
-- M.largest returned before the read.
function M.check_values(found, before)
  for name, value in pairs(before) do
    if (found[name] or 0) < value then
      suspect(name, "etcd has counter %d, %d was there before", found[name] or 0, value)
    end
  end
end

-- Checks the final values |found|: each must contain all acknowledged increments, and no more than
-- these and the unknown ones.
function M.check_end(found)
  for name, state in pairs(states) do
    local value = found[name] or 0
    if value < state.acknowledged or value > state.acknowledged + state.unknown then
      history.violation(name, "the counter is %d after %d acknowledged and %d unknown increments",
        value, state.acknowledged, state.unknown)
    end
  end
end

return M
