--- The record of the locks that one client holds, by name and owner. The main questions to it are:
-- does the owner of a call hold the lock already? (The call then gets the same hold again.) Would a
-- try fail, or a wait never end (a deadlock)?
--
-- In this file, an *exclusive* lock is a lock of any mode except "read" and "permit". The parameter
-- `wanted` is a lock that a call asks for. `loop` is the event loop in which the call waits; nil:
-- it blocks.
local coroutines = require "etcdlock.coroutines"
local loops = require "etcdlock.wait.loop"
local lower = require("etcdlock.text").lower
local names = require "etcdlock.names"
local quote = require("etcdlock.text").quote
local runtime = require "etcdlock.wait.runtime"
local to_string = require("etcdlock.text").to_string

local HeldLocks = {}
HeldLocks.__index = HeldLocks

-- The owner of calls in the main coroutine. In nginx these are the calls in most phases that cannot
-- wait, of any request. The table is private, so no caller can pass it as the option `owner`.
local MAIN = {}

local EMPTY = {}

-- The set of the HeldLocks of all clients of this Lua state.
local all = setmetatable({}, { __mode = "k" })

-- Returns the set of the addresses in the list `endpoints`, in a form that can be compared: a TCP
-- address in lower case, without its scheme, and with 127.0.0.1 in place of localhost.
local function find_members(endpoints)
  local members = {}
  for _, endpoint in ipairs(endpoints) do
    if not endpoint:find "^unixs?:" then
      endpoint = lower(endpoint):gsub("^https?://", ""):gsub("^localhost:", "127.0.0.1:")
    end
    members[endpoint] = true
  end
  return members
end

--- Creates the record of one client. `endpoints` is the list of the client's endpoints.
function HeldLocks.new(endpoints)
  local self = setmetatable({
    -- Full name -> the exclusive lock of this name that the client holds.
    _locks = setmetatable({}, { __mode = "v" }),
    -- Key of get_group -> set of the held locks of this group. This table references the set
    -- weakly. Each lock in the set references it strongly (`_sharers`), so Lua collects the set
    -- after its last lock.
    _sharers = setmetatable({}, { __mode = "v" }),
    -- Value of the option `owner` -> full name -> set of the waits of this owner, see begin_wait.
    _waits = setmetatable({}, { __mode = "k" }),
    _members = find_members(endpoints),
  }, HeldLocks)
  all[self] = true
  return self
end

-- Returns true if both clients certainly use the same etcd cluster: they have an address of a
-- member in common, and a member belongs to one cluster only. The cluster IDs are not compared,
-- because different clusters that were set up alike have the same ID.
local function is_same_etcd(self, other)
  if self == other then
    return true
  end
  for member in pairs(self._members) do
    if other._members[member] then
      return true
    end
  end
  return false
end

--- Returns the owner of a call: the option `owner` if it is given, else the running coroutine.
function HeldLocks.identify_owner(given_owner)
  if given_owner ~= nil then
    return given_owner
  end
  return coroutines.running() or MAIN
end

-- Returns false if this client certainly holds no lock of the names of the wanted lock: then most
-- calls need none of the slower functions below. Does not look at permits.
local function may_hold(self, wanted)
  local locks, sharers, full_names = self._locks, self._sharers, wanted._full_names
  if not full_names then
    local full_name = wanted._full_name
    return locks[full_name] ~= nil or sharers[full_name] ~= nil
  end
  for i = 1, #full_names do
    if locks[full_names[i]] or sharers[full_names[i]] then
      return true
    end
  end
  return false
end

local function get_full_names(lock)
  return lock._full_names or { lock._full_name }
end

-- Returns true if the lock is held. If with_lock has taken the lock and nginx has ended the
-- function that ran under it, no code would ever unlock. is_live then releases the lock and returns
-- false.
local function is_live(self, lock)
  if not lock:_left() then
    return false
  elseif lock._call and lock:count() == 1 and runtime.is_cut_off(lock) then
    lock._core:outlive()
    self:remove(lock)
    return false
  end
  return true
end

-- Returns the exclusive lock of this name that the client holds; nil if there is none.
local function find_live(self, full_name)
  local lock = self._locks[full_name]
  return lock and is_live(self, lock) and lock or nil
end

-- A group is all read locks of one name, or all permits of one name. The locks of a group may be
-- held at the same time. Returns the key of the group in `_sharers`; nil for the mode of an
-- exclusive lock, which has no group.
local function get_group(mode, full_name)
  if mode == "read" then
    return full_name
  end
  return mode == "permit" and full_name .. "\0permit" or nil
end

-- Looks through the read locks that the client holds on the names of the wanted lock. Returns one
-- that passes the test is_match(lock, argument); nil if there is none.
local function find_reader(self, wanted, is_match, argument)
  local full_names = get_full_names(wanted)
  for i = 1, #full_names do
    local sharers = self._sharers[get_group("read", full_names[i])]
    for lock in pairs(sharers or EMPTY) do
      if is_match(lock, argument) and is_live(self, lock) then
        return lock
      end
    end
  end
end

-- As find_reader, for the exclusive locks.
local function find_exclusive(self, wanted, is_match, argument)
  local full_names = get_full_names(wanted)
  for i = 1, #full_names do
    local lock = find_live(self, full_names[i])
    if lock and is_match(lock, argument) then
      return lock
    end
  end
end

local function may_reenter(lock, wanted)
  return lock._owner == wanted._owner and runtime.is_reentered(lock)
end

local function find_own_reader(self, wanted)
  return find_reader(self, wanted, may_reenter, wanted)
end

-- Looks through the exclusive locks that the owner of the wanted lock holds. Returns two of them:
-- the first one that holds any name of the wanted lock, and the one that holds all its names. Each
-- result is nil if there is no such lock.
local function find_own_of_names(self, wanted)
  local full_names, of_some, of_all = get_full_names(wanted), nil, nil
  for i = 1, #full_names do
    local lock = find_live(self, full_names[i])
    lock = lock and may_reenter(lock, wanted) and lock or nil
    of_some = of_some or lock
    if i == 1 then
      of_all = lock
    elseif lock ~= of_all then
      of_all = nil
    end
  end
  return of_some, of_all
end

-- Releases those locks of a group that no code will unlock, because nginx has ended the function
-- that ran under with_lock. Otherwise these locks would block the wanted lock.
local function release_cut_off(self, group)
  for lock in pairs(self._sharers[group] or EMPTY) do
    if lock._call then
      is_live(self, lock) -- releases the lock if nginx has ended its function
    end
  end
end

--- Returns the lock that the owner of the wanted lock holds already; the call then gets the same
-- hold again. Returns nil if there is none. For a leadership, only one with the same value counts.
-- Always returns nil for a permit, because each call takes a new one.
function HeldLocks:find_reentrant(wanted)
  if wanted._mode == "permit" then
    release_cut_off(self, get_group("permit", wanted._full_name))
    return nil
  elseif not may_hold(self, wanted) then
    return nil
  elseif wanted._mode ~= "read" then
    for _, full_name in ipairs(get_full_names(wanted)) do
      release_cut_off(self, get_group("read", full_name))
    end
  end
  local _, lock = find_own_of_names(self, wanted)
  if wanted._mode == "leader" then
    local is_same = lock and lock._mode == "leader"
      and lock._leader_value == wanted._leader_value
    return is_same and lock or nil
  end
  return lock or wanted._mode == "read" and find_own_reader(self, wanted) or nil
end

local function add_to_group(self, lock, group)
  local sharers = self._sharers[group] or setmetatable({}, { __mode = "k" })
  self._sharers[group], lock._sharers = sharers, sharers
  sharers[lock] = true
end

--- Adds a lock that is held from now on.
function HeldLocks:add(lock)
  local group = get_group(lock._mode, lock._full_name)
  if group then
    add_to_group(self, lock, group)
  elseif lock._full_names then
    for _, full_name in ipairs(lock._full_names) do
      self._locks[full_name] = lock
    end
  else
    self._locks[lock._full_name] = lock
  end
end

local function remove_name(self, lock, full_name)
  if self._locks[full_name] == lock then
    self._locks[full_name] = nil
  end
end

--- Moves a write lock to the read locks. May be repeated. The lock is in at least one of the tables
-- at any time, so that its owner never waits for it.
function HeldLocks:downgrade(lock)
  add_to_group(self, lock, get_group("read", lock._full_name))
  remove_name(self, lock, lock._full_name)
end

--- Removes a lock that is being released. After that, a call of the same owner asks the core again.
function HeldLocks:remove(lock)
  if lock._sharers then
    lock._sharers[lock] = nil
    lock._sharers = nil
  elseif lock._full_names then
    for _, full_name in ipairs(lock._full_names) do
      remove_name(self, lock, full_name)
    end
  else
    remove_name(self, lock, lock._full_name)
  end
end

--- Calls fn(lock) for each lock that is held; several times for a lock of several names.
function HeldLocks:visit(fn)
  local function visit(lock)
    if lock:_left() then
      fn(lock)
    end
  end
  for _, lock in pairs(self._locks) do
    visit(lock)
  end
  for _, sharers in pairs(self._sharers) do
    for lock in pairs(sharers) do
      visit(lock)
    end
  end
end

-- ---- deadlocks ----

-- Returns the words for `owner` in a message to a different owner.
local function describe_owner(owner)
  if type(owner) == "string" or type(owner) == "number" then
    return string.format("another owner of this program, %s", quote(to_string(owner)))
  end
  return (type(owner) == "thread" or owner == MAIN) and "another coroutine of this program"
    or "another owner of this program"
end

-- Returns true if a wait until `lock` is released would never end. There are two such cases, both
-- only for a lock without `max_hold`. First: the wait blocks the whole program (`loop` is nil), so
-- no owner can unlock. (If a wait yields to an event loop or to nginx, other coroutines go on.)
-- Second: an earlier phase of the same nginx request has taken the lock, and that phase is over, so
-- it cannot unlock.
local function is_deadlock(lock, loop)
  return not lock._max_hold and (not loop or runtime.is_past(lock))
end

-- Returns true if the wanted lock, a read lock, must not wait behind a writer. The core then grants
-- it at once (if the lock is free, or by sharing the key of a reader of this client) or fails it.
-- The result is true if a client of this Lua state has a read hold of the name, and no code can
-- unlock that hold during the wait. Behind a queued writer, which itself waits for that read hold,
-- the call would wait for ever.
local function must_share(self, wanted, loop)
  for other in pairs(all) do
    if is_same_etcd(self, other)
      and find_reader(other, wanted, is_deadlock, loop) then
      return true
    end
  end
  return false
end

-- Returns a lock of this client that blocks the wanted lock for ever, or nil.
local function find_blocking(self, wanted, loop)
  return find_exclusive(self, wanted, is_deadlock, loop)
    or wanted._mode ~= "read" and find_reader(self, wanted, is_deadlock, loop)
    or nil
end

-- Returns true if another client of this Lua state, for the same etcd cluster, holds a lock that
-- blocks the wanted lock for ever.
local function is_blocked_by_other_client(self, wanted, loop)
  for other in pairs(all) do
    if other ~= self and is_same_etcd(self, other)
      and find_blocking(other, wanted, loop) then
      return true
    end
  end
end

-- Returns true if the clients of this Lua state hold at least `wanted._permits` permits of the
-- semaphore that no code can unlock during the wait. A permit counts also if it was taken with a
-- different `n`.
local function are_permits_blocked(self, wanted, loop)
  local group, held = get_group("permit", wanted._full_name), 0
  for other in pairs(all) do
    for lock in pairs(is_same_etcd(self, other) and other._sharers[group] or EMPTY) do
      local counts = is_live(other, lock) and is_deadlock(lock, loop)
      held = held + (counts and 1 or 0)
    end
  end
  return held >= wanted._permits
end

-- Returns the words, for a message, for the holder that blocks the wanted lock for ever; nil if
-- there is no such holder.
local function describe_blocking(self, wanted, loop)
  if wanted._mode == "permit" then
    return are_permits_blocked(self, wanted, loop) and "this program, with all permits"
      or nil
  end
  local lock = find_blocking(self, wanted, loop)
  if lock then
    return runtime.is_past(lock) and "an earlier phase of this nginx request"
      or describe_owner(lock._owner)
  elseif is_blocked_by_other_client(self, wanted, loop) then
    return "another client of this program"
  end
end

-- ---- waits ----

--- Records that the owner of the wanted lock begins to wait for it. Not for a call without the
-- option `owner`, because its owner is a coroutine, which cannot wait twice at the same time.
-- Records nothing for a permit, because an owner may wait for several permits.
function HeldLocks:begin_wait(wanted)
  if wanted._mode == "permit" then
    return
  end
  -- By name, because an owner may wait for thousands of locks. The tables are weak, because a
  -- coroutine that the program drops during its wait never calls end_wait. Each lock references the
  -- set that it is in, so that Lua does not collect the set before the lock.
  local key, by_name = wanted._full_name, self._waits[wanted._owner]
  by_name = by_name or setmetatable({}, { __mode = "v" })
  local waits = by_name[key] or setmetatable({}, { __mode = "k" })
  waits[wanted], wanted._waits = true, waits
  by_name[key], self._waits[wanted._owner] = waits, by_name
end

--- Undoes begin_wait.
function HeldLocks:end_wait(wanted)
  local by_name, waits = self._waits[wanted._owner], wanted._waits
  if not by_name or not waits then
    return
  end
  waits[wanted], wanted._waits = nil, nil
  if not next(waits) then
    by_name[wanted._full_name] = nil
  end
  if not next(by_name) then
    self._waits[wanted._owner] = nil
  end
end

-- Returns message, code if the owner of the wanted lock already waits for the same name in another
-- coroutine. A second wait would end only after the first coroutine has got the lock and released
-- it. If the first coroutine waits for the second one before the release, neither would ever end.
-- Returns nil if the owner does not wait for this name.
local function find_wait_refusal(self, wanted)
  local by_name = wanted._mode ~= "permit" and self._waits[wanted._owner] or EMPTY
  local waits = by_name[wanted._full_name] or EMPTY
  for wait in pairs(waits) do
    if wait._core:wait(0) ~= nil then
      waits[wait] = nil -- the wait has ended, perhaps by an error, without end_wait
    elseif runtime.is_waiting(wait._binding) then
      local text = "%s: its owner waits for it already, in another coroutine"
      return text:format(names.describe_lock(wanted)), "deadlock"
    end
  end
end

-- Returns message, code if a wait for the wanted lock would never end. Otherwise returns nil.
local function find_deadlock(self, wanted, loop)
  local message, code = find_wait_refusal(self, wanted)
  if message then
    return message, code
  end
  local holder = describe_blocking(self, wanted, loop)
  if holder then
    local text = "%s is held by %s, which cannot release it while this call waits%s"
    local hint = loops.hint(wanted._client._wakeups.chosen)
    return text:format(names.describe_lock(wanted), holder, hint), "deadlock"
  end
end

-- ---- refusals ----

--- Returns message, code if the owner of the wanted lock would wait for its own hold; nil if not.
function HeldLocks:find_own_refusal(wanted)
  local is_writer = wanted._mode ~= "read" and wanted._mode ~= "permit"
  if is_writer and find_own_reader(self, wanted) then
    local text = "lock %s: its owner has a read hold; a read hold cannot be upgraded to write"
    return text:format(names.quote(wanted)), "deadlock"
  end
  if wanted._mode == "leader" and find_own_of_names(self, wanted) then
    local text = "election %s: its owner holds that name already, but not with this value;"
      .. " a leader changes its value with proclaim"
    return text:format(names.quote(wanted)), "deadlock"
  end
  local of_some = wanted._mode == "multi" and find_own_of_names(self, wanted)
  if of_some then
    local text = "lock %s: its owner holds %s already, but not all names in one hold;"
      .. " unlock that first"
    return text:format(names.quote(wanted), names.quote(of_some)), "deadlock"
  end
end

local function match_any()
  return true
end

-- Returns a lock that this client holds and that blocks the wanted lock; nil or false if there is
-- none. Always returns nil for a permit, because a semaphore has several holders.
local function find_holder(self, wanted)
  if wanted._mode == "permit" then
    return nil
  end
  return find_exclusive(self, wanted, match_any)
    or wanted._mode ~= "read" and find_reader(self, wanted, match_any)
end

--- Returns whether a lock of this client blocks the wanted lock.
function HeldLocks:is_holder(wanted)
  return find_holder(self, wanted) and true or false
end

-- Returns message, code if this client knows without a request that a try would fail. Otherwise
-- returns nil.
local function find_try_refusal(self, wanted)
  local lock = find_holder(self, wanted)
  if lock then
    local text = "lock %s is held by %s"
    return text:format(names.quote(wanted), describe_owner(lock._owner)), "locked"
  end
end

--- Returns message, code if the request for the wanted lock must not start, because of holds and
-- waits of this Lua state: a try would fail, or a wait would never end. Returns nil if it may
-- start. Sets the field `_must_share` of the lock.
function HeldLocks:find_refusal(wanted, loop)
  local is_known = wanted._mode == "permit" or self._waits[wanted._owner] ~= nil
  for other in pairs(all) do
    if may_hold(other, wanted) then
      is_known = true
    end
  end
  if not is_known then
    return nil
  end
  wanted._must_share = wanted._mode == "read" and must_share(self, wanted, loop) or nil
  local message, code = self:find_own_refusal(wanted)
  if message then
    return message, code
  elseif wanted._timeout == 0 then
    return find_try_refusal(self, wanted)
  end
  message, code = find_deadlock(self, wanted, loop)
  if message and not loop then
    -- The program may have dropped the lock that blocks the wanted one, or an error may have ended
    -- the owner's other wait. This garbage collection then releases that lock, or cancels the
    -- request of that wait.
    collectgarbage()
    collectgarbage()
    message, code = find_deadlock(self, wanted, loop)
  end
  return message, code
end

return HeldLocks
