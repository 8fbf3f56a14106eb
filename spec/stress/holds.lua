-- Keeps the holds of all clients, and checks them at each tick: exclusion, the number of permits,
-- the order of tokens, the end by max_hold, and a cause for each loss.

local faults = require "spec.stress.faults"
local history = require "spec.stress.history"
local loop = require "spec.stress.loop"
local plan = require "spec.stress.plan"
local record = require "spec.stress.record"

local M = {}

local by_name = {} -- name = list of holds
-- name = { writer, reader, client }: the largest token of a writer and of a reader so far, and the
-- client of the larger one
local highest = {}
-- name = when a hold of the name last began or ended. M.changed: any hold. M.changed_for_readers: a
-- hold that excludes readers.
M.changed, M.changed_for_readers = {}, {}

local function touch(hold)
  for _, name in ipairs(hold.names) do
    M.changed[name] = loop.now()
    if hold.mode ~= "read" or hold.granted_mode ~= "read" then
      M.changed_for_readers[name] = loop.now()
    end
  end
end

local function list_of(name)
  by_name[name] = by_name[name] or {}
  return by_name[name]
end

function M.describe(hold)
  return ("%s %s token %.0f lease %s"):format(hold.owner, hold.mode, hold.token, hold.lease)
end

local function note(hold, text, ...)
  text = text:format(...)
  for _, name in ipairs(hold.names) do
    history.note(name, "%s %s", M.describe(hold), text)
  end
end
M.note = note

-- ---- tokens -----------------------------------------------------------------

-- Checks the token of |hold|. A writer's token must be larger than all earlier tokens, unless the
-- same client has the earlier hold: after a handoff both holds have one token. A reader's token
-- must be larger than those of all earlier writers.
local function check_token(hold, name)
  local last = highest[name] or { writer = 0, reader = 0 }
  highest[name] = last
  local is_reader = hold.mode == "read"
  local before = is_reader and last.writer or math.max(last.writer, last.reader)
  local is_shared = hold.token == before and last.client == hold.client
  if (hold.token < before or hold.token == before and not is_shared)
    and not faults.overlap_excuse(hold) then
    history.violation(name, "%s: token is not above %.0f", M.describe(hold), before)
  end
  if hold.token > last.writer and hold.token > last.reader then last.client = hold.client end
  local field = is_reader and "reader" or "writer"
  last[field] = math.max(last[field], hold.token)
end

-- ---- begin and end ------------------------------------------------------------

-- Adds |hold|, with the fields names, mode, client, owner, asked, token, lease, max_hold and lock.
-- The reference to lock is weak, so that Lua collects a handle that its owner drops. `seen`: when
-- it was last seen held.
function M.add(hold)
  hold.began, hold.granted_mode = loop.now(), hold.mode
  hold.ref = setmetatable({ hold.lock }, { __mode = "v" })
  local is_held = hold.lock:held()
  hold.seen = is_held and hold.began or nil
  hold.lock = nil
  touch(hold)
  history.count "acquisitions"
  history.count(hold.mode)
  for _, name in ipairs(hold.names) do
    if hold.mode ~= "permit" and is_held then check_token(hold, name) end
    table.insert(list_of(name), hold)
  end
  note(hold, "granted%s", is_held and "" or ", but not held any more")
end

-- Forgets |hold|, because it has ended; |text| says how. |was_lost|: it has ended before this call.
-- May be repeated.
function M.remove(hold, text, was_lost)
  if hold.is_over then return end
  hold.is_over = true
  record.hold(hold, was_lost and hold.seen or loop.now(), loop.now())
  touch(hold)
  note(hold, "%s", text)
  for _, name in ipairs(hold.names) do
    local list = list_of(name)
    for i = #list, 1, -1 do
      if list[i] == hold then table.remove(list, i) end
    end
  end
end

-- Counts |hold|, a write hold, as a read hold from now on.
function M.downgrade(hold)
  record.hold(hold, hold.seen, loop.now())
  hold.mode, hold.asked, hold.began = "read", loop.now(), loop.now()
  touch(hold)
  note(hold, "downgrades")
end

-- Handles |hold|, which is not held any more although its owner has not released it: |code| must
-- have a cause.
local function check_loss(hold, lock, code)
  if code == "closed" and hold.client.is_closed then
    return M.remove(hold, "closed", true)
  end
  local reason = code == "lost" and lock:wait_lost(0) or code
  hold.loss = reason
  local cause = code == "lost" and faults.loss_cause(hold.client, hold.names[1], reason, hold)
  for i = 2, #hold.names do
    cause = cause or faults.loss_cause(hold.client, hold.names[i], reason, hold)
  end
  M.remove(hold, ("not held: %s (%s)"):format(tostring(reason), tostring(cause)), true)
  history.count(reason == "max_hold" and "max_hold" or "losses")
  if not cause then
    history.violation(hold.names[1], "%s: lost without a cause: %s", M.describe(hold),
      tostring(reason))
  end
end

-- Returns true if |hold| is held at this moment.
local function is_held(hold)
  if hold.is_over then return false end
  local lock = hold.ref[1]
  if not lock then
    M.remove(hold, "collected", true)
    return false
  end
  local held, code = lock:held()
  if not held then
    check_loss(hold, lock, code)
  elseif hold.seen then
    hold.seen = loop.now()
  end
  return held
end

-- ---- checks at each tick ---------------------------------------------------------

local function check_max_hold(hold)
  local limit = hold.max_hold and hold.max_hold + 0.01
  if limit and not hold.is_too_long and loop.now() - hold.began > limit and is_held(hold) then
    -- A hold is reported only once.
    hold.is_too_long = true
    history.violation(hold.names[1], "%s: held for %.3f s, max_hold is %.3f", M.describe(hold),
      loop.now() - hold.began, hold.max_hold)
  end
end

-- Reports that |one| and |other| were held at the same moment, unless a fault excuses it.
local function report_overlap(name, one, other)
  local excuse = faults.overlap_excuse(one) or faults.overlap_excuse(other)
  if one.overlaps ~= other then
    note(one, "overlaps %s (%s)", M.describe(other), tostring(excuse))
    if excuse then history.count("overlaps excused: " .. excuse) end
  end
  one.overlaps = other
  one.excused = one.excused or faults.overlap_excuse(one)
  other.excused = other.excused or faults.overlap_excuse(other)
  if not excuse and one.reported ~= other then
    one.reported = other
    history.violation(name, "%s and %s are held at once", M.describe(one), M.describe(other))
  end
end

-- Reports each pair of holds of |held| that were held at the same moment and exclude each other.
-- All of them were held when the caller made the list, and a hold that has ended does not begin
-- again. So if |other| is held at a look, and |one| at a later look, then both were held at the
-- first look.
local function check_exclusion(name, held)
  for i, one in ipairs(held) do
    for j = i + 1, #held do
      local other = held[j]
      if plan.conflict(one.mode, other.mode) and is_held(other) and is_held(one)
        and is_held(other) then
        report_overlap(name, one, other)
      end
    end
  end
end

local function check_permits(name, held)
  local count, excused = 0, 0
  for _, hold in ipairs(held) do
    if is_held(hold) then
      count = count + 1
      excused = excused + (faults.overlap_excuse(hold) and 1 or 0)
    end
  end
  local n = plan.PERMITS[name]
  if count - excused > n then
    history.violation(name, "%d of %d permits are held", count, n)
  end
end

local function check(name, list)
  local held = {}
  for i = #list, 1, -1 do
    local hold = list[i]
    if hold and is_held(hold) then
      held[#held + 1] = hold
      check_max_hold(hold)
    end
  end
  if plan.PERMITS[name] then
    check_permits(name, held)
  elseif held[2] then
    check_exclusion(name, held)
  end
end

-- Checks all holds. Called at each tick.
function M.check()
  for name, list in pairs(by_name) do check(name, list) end
end

-- ---- what others ask -----------------------------------------------------------

-- Returns the holds of |name|, including those whose handles were dropped.
function M.of(name)
  return list_of(name)
end

-- Returns a list of all holds.
function M.all()
  local all, seen = {}, {}
  for _, list in pairs(by_name) do
    for _, hold in ipairs(list) do
      if not seen[hold] then all[#all + 1] = hold end
      seen[hold] = true
    end
  end
  table.sort(all, function(one, other)
    return one.token < other.token or one.token == other.token and one.owner < other.owner
  end)
  return all
end

return M
