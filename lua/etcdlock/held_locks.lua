--- The record of the locks that one client holds, by name and owner. The main questions to it are:
-- does the owner of a call hold the lock already, so that the call gets the same hold again? Would
-- a try fail, or a wait never end (a deadlock)?
--
-- In this file, an *exclusive* lock is a lock of any mode except "read" and "permit".
local coroutines = require "etcdlock.coroutines"
local lower = require("etcdlock.text").lower
local quote = require("etcdlock.text").quote
local runtime = require "etcdlock.wait.runtime"
local to_string = require("etcdlock.text").to_string

local HeldLocks = {}
HeldLocks.__index = HeldLocks

-- The owner of a call in the main coroutine where coroutine.running() returns nil there, as in Lua
-- 5.1. The table is private, so no caller can pass it as the option `owner`.
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
    -- Value of the option `owner` -> set of the waits of this owner, see begin_wait.
    _waits = setmetatable({}, { __mode = "k" }),
    _members = find_members(endpoints),
  }, HeldLocks)
  all[self] = true
  return self
end

-- Returns true if both clients use the same etcd cluster. If they have a member in common, they do,
-- because a member belongs to one cluster only. The cluster IDs are not compared, because different
-- clusters that were set up alike have the same ID.
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
  return coroutines.running() or coroutine.running() or MAIN
end

-- Returns true if the lock is held. If with_lock has taken the lock and nginx has ended the
-- function that ran under it, no code would ever unlock. is_live then releases the lock and returns
-- false.
local function is_live(self, lock)
  if not lock:_left() then
    return false
  elseif lock._run and lock._count == 1 and runtime.is_cut_off(lock) then
    self:remove(lock)
    lock._core:outlive()
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

-- Looks through the read locks that the client holds on the names of the acquisition. Returns one
-- that passes the test is_match(lock, argument); nil if there is none.
local function find_reader(self, acquisition, is_match, argument)
  local full_names = acquisition.full_names
  for i = 1, #full_names do
    local sharers = self._sharers[get_group("read", full_names[i])]
    for lock in pairs(sharers or EMPTY) do
      if is_match(lock, argument) and is_live(self, lock) then
        return lock
      end
    end
  end
end

-- Looks through the exclusive locks that the client holds on the names of the acquisition. Returns
-- one that passes the test is_match(lock, argument); nil if there is none.
local function find_exclusive(self, acquisition, is_match, argument)
  local full_names = acquisition.full_names
  for i = 1, #full_names do
    local lock = find_live(self, full_names[i])
    if lock and is_match(lock, argument) then
      return lock
    end
  end
end

local function may_reenter(lock, acquisition)
  return lock._acquisition.owner == acquisition.owner and runtime.is_reentered(lock)
end

local function find_own_reader(self, acquisition)
  return find_reader(self, acquisition, may_reenter, acquisition)
end

-- Looks through the exclusive locks that the owner of the acquisition holds. Returns two of them:
-- the first one that holds any name of the acquisition, and the one that holds all names of the
-- acquisition. Each result is nil if there is no such lock.
local function find_own_of_names(self, acquisition)
  local full_names, of_some, of_all = acquisition.full_names, nil, nil
  for i = 1, #full_names do
    local lock = find_live(self, full_names[i])
    lock = lock and may_reenter(lock, acquisition) and lock or nil
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
-- that ran under with_lock. Otherwise these locks would block the acquisition.
local function release_cut_off(self, group)
  for lock in pairs(self._sharers[group] or EMPTY) do
    if lock._run then
      is_live(self, lock) -- releases the lock if nginx has ended its function
    end
  end
end

--- Returns the lock that the owner of the acquisition holds already, so that the call gets the same
-- hold again. Returns nil if there is none. Always returns nil for a permit, because each call
-- takes a new one.
function HeldLocks:find_reentrant(acquisition)
  if acquisition.mode == "permit" then
    release_cut_off(self, get_group("permit", acquisition.full_name))
    return nil
  elseif acquisition.mode ~= "read" then
    for _, full_name in ipairs(acquisition.full_names) do
      release_cut_off(self, get_group("read", full_name))
    end
  end
  local _, lock = find_own_of_names(self, acquisition)
  if acquisition.mode == "leader" then
    local is_same = lock and lock._mode == "leader"
      and lock._leader_value == acquisition.leader_value
    return is_same and lock or nil
  end
  return lock or acquisition.mode == "read" and find_own_reader(self, acquisition) or nil
end

--- Adds a lock that is held from now on.
function HeldLocks:add(lock)
  local group = get_group(lock._mode, lock._acquisition.full_name)
  if not group then
    local full_names = lock._acquisition.full_names
    for i = 1, #full_names do
      self._locks[full_names[i]] = lock
    end
    return
  end
  local sharers = self._sharers[group]
  if not sharers then
    sharers = setmetatable({}, { __mode = "k" })
    self._sharers[group] = sharers
  end
  sharers[lock] = true
  lock._sharers = sharers
end

--- Removes a lock that is being released. After that, a call of the same owner asks the core again.
function HeldLocks:remove(lock)
  local full_names = lock._acquisition.full_names
  for i = 1, #full_names do
    if self._locks[full_names[i]] == lock then
      self._locks[full_names[i]] = nil
    end
  end
  if lock._sharers then
    lock._sharers[lock] = nil
    lock._sharers = nil
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
-- only for a lock without `max_hold`. First: no event loop runs here, so the wait blocks the whole
-- program, and no owner can unlock. (In an event loop and in nginx, other coroutines go on during
-- the wait.) Second: an earlier phase of the same nginx request has taken the lock, and that phase
-- is over, so it cannot unlock.
local function is_deadlock(lock, chosen)
  return not lock._max_hold and (not runtime.loop(chosen) or runtime.is_past(lock))
end

--- Returns true if the acquisition is a read lock that must not wait behind a writer. The core then
-- grants it at once (if the lock is free, or by sharing the key of a reader of this client) or
-- fails it. The result is true if a client of this Lua state has a read hold of a name of the
-- acquisition, and no code can unlock that hold during the wait. Otherwise the acquisition could
-- wait for ever: for a queued writer, which itself waits for that read hold.
function HeldLocks:must_share(acquisition, chosen)
  for other in pairs(acquisition.mode == "read" and all or EMPTY) do
    if is_same_etcd(self, other)
      and find_reader(other, acquisition, is_deadlock, chosen) then
      return true
    end
  end
  return false
end

-- Returns a lock of this client that blocks the acquisition for ever, or nil.
local function find_blocking(self, acquisition, chosen)
  return find_exclusive(self, acquisition, is_deadlock, chosen)
    or acquisition.mode ~= "read" and find_reader(self, acquisition, is_deadlock, chosen)
    or nil
end

-- Returns true if another client of this Lua state, for the same etcd cluster, holds a lock that
-- blocks the acquisition for ever.
local function is_blocked_by_other_client(self, acquisition, chosen)
  for other in pairs(all) do
    if other ~= self and is_same_etcd(self, other)
      and find_blocking(other, acquisition, chosen) then
      return true
    end
  end
end

-- Returns true if the clients of this Lua state hold at least `acquisition.permits` permits of the
-- semaphore that no code can unlock during the wait. A permit counts also if it was taken with a
-- different `n`.
local function are_permits_blocked(self, acquisition, chosen)
  local group, held = get_group("permit", acquisition.full_name), 0
  for other in pairs(all) do
    for lock in pairs(is_same_etcd(self, other) and other._sharers[group] or EMPTY) do
      local counts = is_live(other, lock) and is_deadlock(lock, chosen)
      held = held + (counts and 1 or 0)
    end
  end
  return held >= acquisition.permits
end

-- Returns the words, for a message, for the holder that blocks the acquisition for ever; nil if
-- there is no such holder.
local function find_deadlock(self, acquisition, chosen)
  if acquisition.mode == "permit" then
    return are_permits_blocked(self, acquisition, chosen) and "this program, with all permits"
      or nil
  end
  local lock = find_blocking(self, acquisition, chosen)
  if lock then
    return runtime.is_past(lock) and "an earlier phase of this nginx request"
      or describe_owner(lock._acquisition.owner)
  elseif is_blocked_by_other_client(self, acquisition, chosen) then
    return "another client of this program"
  end
end

-- ---- waits ----

--- Records that the owner of the acquisition begins to wait for `core_lock`. `binding` is the
-- result of runtime.bind. Returns the recorded wait, a table. The caller must keep this table in a
-- variable and pass it to end_wait, because HeldLocks references the table weakly.
--
-- Records nothing and returns nil for an acquisition without the option `owner`, because its owner
-- is a coroutine, which cannot wait twice at the same time. Also records nothing and returns nil
-- for a permit, because an owner may wait for several permits.
function HeldLocks:begin_wait(acquisition, core_lock, binding)
  if acquisition.given_owner == nil or acquisition.mode == "permit" then
    return nil
  end
  -- The keys are weak, because a coroutine that the program drops during its wait never calls
  -- end_wait.
  local waits = self._waits[acquisition.owner] or setmetatable({}, { __mode = "k" })
  local wait = { full_name = acquisition.full_name, core_lock = core_lock, binding = binding }
  waits[wait], self._waits[acquisition.owner] = true, waits
  return wait
end

--- Removes `wait`, the result of begin_wait, from the record. `wait` may be nil.
function HeldLocks:end_wait(acquisition, wait)
  local waits = wait and self._waits[acquisition.owner]
  if waits then
    waits[wait] = nil
    if not next(waits) then
      self._waits[acquisition.owner] = nil
    end
  end
end

-- Returns message, code if the owner of the acquisition already waits for the same name in another
-- coroutine. A second wait would end only after the first coroutine has got the lock and released
-- it. If the first coroutine waits for the second one before the release, neither would ever end.
-- Returns nil if the owner does not wait for this name.
local function find_wait_refusal(self, acquisition)
  if acquisition.mode == "permit" then
    return nil
  end
  for wait in pairs(self._waits[acquisition.owner] or EMPTY) do
    if wait.full_name == acquisition.full_name and wait.core_lock:wait(0) == nil
      and runtime.is_waiting(wait.binding) then
      local text = "lock %s: its owner waits for it already, in another coroutine"
      return text:format(quote(acquisition.name)), "deadlock"
    end
  end
end

-- ---- refusals ----

--- Returns message, code if the owner of the acquisition would wait for its own hold; nil if not.
function HeldLocks:find_own_refusal(acquisition)
  local is_writer = acquisition.mode ~= "read" and acquisition.mode ~= "permit"
  if is_writer and find_own_reader(self, acquisition) then
    local text = "lock %s: its owner has a read hold; a read hold cannot be upgraded to write"
    return text:format(quote(acquisition.name)), "deadlock"
  end
  if acquisition.mode == "leader" and find_own_of_names(self, acquisition) then
    local text = "election %s: its owner holds that name already, but not with this value;"
      .. " a leader changes its value with proclaim"
    return text:format(quote(acquisition.name)), "deadlock"
  end
  local of_some = acquisition.mode == "multi" and find_own_of_names(self, acquisition)
  if of_some then
    local text = "lock %s: its owner holds %s already, but not all names in one hold;"
      .. " unlock that first"
    return text:format(quote(acquisition.name), quote(of_some:name())), "deadlock"
  end
end

local function match_any()
  return true
end

-- Returns a lock that this client holds and that blocks the acquisition; nil or false if there is
-- none. Always returns nil for a permit, because a semaphore has several holders.
local function find_holder(self, acquisition)
  if acquisition.mode == "permit" then
    return nil
  end
  return find_exclusive(self, acquisition, match_any)
    or acquisition.mode ~= "read" and find_reader(self, acquisition, match_any)
end

--- Returns whether a lock of this client blocks the acquisition.
function HeldLocks:is_holder(acquisition)
  return find_holder(self, acquisition) and true or false
end

-- Returns message, code if this client knows without a request that a try would fail. Otherwise
-- returns nil.
local function find_try_refusal(self, acquisition)
  local lock = find_holder(self, acquisition)
  if lock then
    local text = "lock %s is held by %s"
    return text:format(quote(acquisition.name), describe_owner(lock._acquisition.owner)), "locked"
  end
end

--- Returns message, code if the acquisition must not start, because of holds and waits of this Lua
-- state: a try would fail, or a wait would never end. Returns nil if it may start. `chosen` is
-- connect's option `loop`.
function HeldLocks:find_refusal(acquisition, chosen)
  local message, code = self:find_own_refusal(acquisition)
  if message then
    return message, code
  elseif acquisition.try then
    return find_try_refusal(self, acquisition)
  end
  message, code = find_wait_refusal(self, acquisition)
  if message then
    return message, code
  end
  local holder = find_deadlock(self, acquisition, chosen)
  if holder and not runtime.loop(chosen) then
    -- The program may have dropped the lock that blocks the acquisition. If so, this garbage
    -- collection releases that lock.
    collectgarbage()
    collectgarbage()
    holder = find_deadlock(self, acquisition, chosen)
  end
  if holder then
    local text = "%s %s is held by %s, which cannot release it while this call waits"
    local noun = acquisition.mode == "permit" and "semaphore" or "lock"
    return text:format(noun, quote(acquisition.name), holder), "deadlock"
  end
end

return HeldLocks
