-- Keeps the acquisitions that wait, and checks them: each ends in time, with a documented code that
-- fits; and none waits while its name is free.

local faults = require "spec.stress.faults"
local history = require "spec.stress.history"
local holds = require "spec.stress.holds"
local loop = require "spec.stress.loop"
local plan = require "spec.stress.plan"

local M = {}

local TRY_MAX = 2 -- seconds that a try may take if etcd does not answer
local FIRST_MAX = 5 -- seconds after which a client that was never answered may give up

local waiting = {} -- acquisitions (keys)

-- ---- begin and end ------------------------------------------------------------

-- Adds the acquisition |asked|: mode, names, client, owner, timeout (nil: none), is_try.
function M.begin(asked)
  asked.began, asked.stalled = loop.now(), loop.stalled()
  asked.free_since, asked.unblocked_since = asked.began, asked.began
  waiting[asked] = true
  for _, name in ipairs(asked.names) do
    history.note(name, "%s asks: %s, timeout %s%s", asked.owner, asked.mode,
      tostring(asked.timeout), asked.is_try and ", try" or "")
  end
end

-- Returns the seconds for which |asked| has waited while the program could run.
local function waited(asked)
  return loop.now() - asked.began - (loop.stalled() - asked.stalled)
end

local function limit_of(asked)
  return asked.is_try and TRY_MAX or asked.timeout or math.huge
end

-- Reports |asked| if it waits longer than it may.
local function check_limit(asked)
  if not asked.is_late and waited(asked) > limit_of(asked) + plan.SLACK then
    asked.is_late = true
    history.violation(asked.names[1], "%s: %s waits for %.1f s, timeout %s", asked.owner,
      asked.mode, waited(asked), tostring(asked.timeout))
  end
end

-- Returns why |asked| must not end with |code|. Returns nil if |code| is in order.
local function objection(asked, code)
  local elapsed = loop.now() - asked.began
  if code == "locked" then
    return not asked.is_try and "only a try may be told that" or nil
  elseif code == "deadlock" then
    return not asked.may_deadlock and "the wait would have ended" or nil
  elseif code == "cancelled" then
    return not asked.is_cancelled and "nobody has cancelled it" or nil
  elseif code == "closed" then
    return not asked.client.is_closed and "the client is open" or nil
  elseif code == "timeout" then
    return (asked.is_try or elapsed < (asked.timeout or math.huge) - 0.01)
      and "it is not over" or nil
  elseif code == "unavailable" then
    local first = asked.was_reached and math.huge or FIRST_MAX
    return elapsed < math.min(limit_of(asked), first) - 0.05 and not asked.is_try
      and "it should have waited its time out" or nil
  elseif code == "lost" then
    for _, name in ipairs(asked.names) do
      if faults.loss_cause(asked.client, name) then return nil end
    end
    return "nobody has taken its key"
  end
  return "it is not documented for that, or has no cause here"
end

-- Records and checks the end of the acquisition |asked|: it has got |lock|, or has failed with
-- |message| and |code|.
function M.finish(asked, lock, message, code)
  waiting[asked] = nil
  check_limit(asked)
  if lock then
    asked.client.was_reached = true
    return
  end
  history.count(code or "nil")
  local why = objection(asked, code)
  if not why and (type(message) ~= "string" or message == "" or message:find "\n") then
    why = "the message is no line"
  end
  for _, name in ipairs(asked.names) do
    history.note(name, "%s does not get it: %s (%s)", asked.owner, tostring(code),
      tostring(message))
  end
  if why then
    history.violation(asked.names[1], "%s: %s answers %s (%s): %s", asked.owner, asked.mode,
      tostring(code), tostring(message), why)
  end
end

-- Forgets |asked|, which its owner has dropped.
function M.drop(asked)
  waiting[asked] = nil
  for _, name in ipairs(asked.names) do
    history.note(name, "%s drops what it has asked for", asked.owner)
  end
end

-- ---- is anything in its way? -----------------------------------------------------

-- Returns the set of names that waiting multi-locks connect with |name|, including |name|.
local function connected(name)
  local set, grows = { [name] = true }, true
  while grows do
    grows = false
    for asked in pairs(waiting) do
      local touches = false
      for _, one in ipairs(asked.names[2] and asked.names or {}) do
        touches = touches or set[one]
      end
      for _, one in ipairs(touches and asked.names or {}) do
        grows = grows or not set[one]
        set[one] = true
      end
    end
  end
  return set
end

-- Returns what may block acquisitions of |name|, a table. names: set of the names that are
-- connected with |name|. For all these names together: changed and changed_for_readers, the times
-- of holds.lua; holds, the number of holds; writers, the number of holds and waiting acquisitions
-- that exclude readers.
local function situation_of(name)
  local this = {
    names = connected(name), changed = 0, changed_for_readers = 0, holds = 0, writers = 0,
  }
  for one in pairs(this.names) do
    for _, field in ipairs { "changed", "changed_for_readers" } do
      this[field] = math.max(this[field], holds[field][one] or 0)
    end
    for _, hold in ipairs(holds.of(one)) do
      this.holds = this.holds + 1
      this.writers = this.writers + (hold.mode == "read" and 0 or 1)
    end
  end
  for asked in pairs(waiting) do
    for _, one in ipairs(asked.mode == "read" and {} or asked.names) do
      this.writers = this.writers + (this.names[one] and 1 or 0)
    end
  end
  return this
end

-- Returns the time until which holds or waiting writers of |situation| may have blocked |asked|.
local function taken_until(asked, situation)
  if asked.mode == "permit" then
    return situation.holds >= plan.PERMITS[asked.names[1]] and loop.now() or 0
  elseif asked.mode == "read" then
    return situation.writers > 0 and loop.now() or situation.changed_for_readers
  end
  return situation.holds > 0 and loop.now() or situation.changed
end

-- For each waiting acquisition, moves the times since which it could be granted: to the end of the
-- last hold that blocked it, or to the present time during faults.
local function look_at_holds()
  local now, is_calm, situations = loop.now(), faults.calm() >= plan.SETTLE, {}
  for asked in pairs(waiting) do
    local since = is_calm and 0 or now
    for _, name in ipairs(asked.names) do
      situations[name] = situations[name] or situation_of(name)
      since = math.max(since, taken_until(asked, situations[name]))
    end
    asked.free_since = math.max(asked.free_since, since)
    asked.unblocked_since = math.max(asked.unblocked_since, since)
  end
end

-- Returns true if the client of |entry| holds or waits by this key.
local function is_used(entry)
  local is_plain = entry.mode == "lock"
  local function fits(mode)
    return entry.mode == mode or is_plain and (mode == "multi" or mode == "leader")
  end
  for asked in pairs(waiting) do
    if asked.client.id == entry.client and fits(asked.mode) then
      for _, name in ipairs(asked.names) do
        if name == entry.name then return true end
      end
    end
  end
  for _, hold in ipairs(holds.of(entry.name)) do
    if hold.client.id == entry.client and fits(hold.granted_mode) then return true end
  end
end

-- Returns true if |entry| may be the key by which |asked| waits.
local function is_own(asked, entry)
  local is_plain = asked.mode == "multi" or asked.mode == "leader"
  return entry.client == asked.client.id and entry.mode == (is_plain and "lock" or asked.mode)
end

-- Returns the token of the youngest key by which |asked| may wait under |name|; math.huge if there
-- is none.
local function own_token(asked, name, snapshot)
  local token
  for _, entry in ipairs(snapshot.entries) do
    if entry.name == name and is_own(asked, entry) then
      token = math.max(token or 0, entry.token)
    end
  end
  return token or math.huge
end

-- Returns an entry that blocks |asked| although its client neither holds nor waits by it. The entry
-- is older than the key of |asked|, or belongs to another name that is connected. Returns nil if
-- there is none.
local function leftover(asked, snapshot)
  for _, own in ipairs(asked.names) do
    local names, token = connected(own), own_token(asked, own, snapshot)
    for _, entry in ipairs(snapshot.entries) do
      local is_before = entry.name ~= own or entry.token < token
      if names[entry.name] and is_before and not is_used(entry)
        and not (asked.mode == "read" and entry.mode == "read") then
        return entry
      end
    end
  end
end

local function check_free(asked)
  local free, unblocked = loop.now() - asked.free_since, loop.now() - asked.unblocked_since
  local stalled = loop.stalled() - asked.stalled
  if asked.is_starved then return end
  if free - stalled > plan.FREE_MAX then
    asked.is_starved = true
    history.violation(asked.names[1], "%s: %s waits although %s is free for %.1f s", asked.owner,
      asked.mode, table.concat(asked.names, " "), free)
  elseif unblocked - stalled > plan.LEFT_MAX then
    asked.is_starved = true
    history.violation(asked.names[1], "%s: %s waits %.1f s for a key that nobody uses: %s",
      asked.owner, asked.mode, unblocked, asked.leftover or "?")
  end
end

-- Checks all waiting acquisitions with the keys of |snapshot|. nil: etcd has not answered.
function M.look(snapshot)
  for asked in pairs(waiting) do
    local now = loop.now()
    if not snapshot then
      asked.free_since, asked.unblocked_since = now, now
    else
      local entry = leftover(asked, snapshot)
      if entry then
        asked.free_since, asked.leftover = now, entry.key .. " of " .. tostring(entry.client)
      end
      check_free(asked)
    end
  end
end

-- Checks the time limits of all waiting acquisitions. Called at each tick.
function M.check()
  look_at_holds()
  for asked in pairs(waiting) do check_limit(asked) end
end

return M
