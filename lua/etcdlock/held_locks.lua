--- The locks that one client holds, by name and owner. They decide which call gets a hold that its
-- owner has already, and which wait would never end.
local coroutines = require "etcdlock.coroutines"
local lower = require("etcdlock.text").lower
local quote = require("etcdlock.text").quote
local runtime = require "etcdlock.wait.runtime"
local to_string = require("etcdlock.text").to_string

local HeldLocks = {}
HeldLocks.__index = HeldLocks

-- The owner of a call in the main coroutine, for which Lua 5.1 has no object. Callers cannot name
-- it.
local MAIN = {}

local EMPTY = {}

-- The HeldLocks of all clients of this process (keys).
local all = setmetatable({}, { __mode = "k" })

-- Returns the set of members at `endpoints`. A TCP address is the same with and without its scheme,
-- and localhost is the same as 127.0.0.1.
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

--- Creates the record of a client with `endpoints`, a list.
function HeldLocks.new(endpoints)
  local self = setmetatable({
    -- Full name -> the lock that excludes all others.
    _locks = setmetatable({}, { __mode = "v" }),
    -- Group of get_group -> set of locks that are held side by side. Each of these locks references
    -- its set, so the set ends with the last of them.
    _sharers = setmetatable({}, { __mode = "v" }),
    -- Named owner -> set of its waits, see begin_wait.
    _waits = setmetatable({}, { __mode = "k" }),
    _members = find_members(endpoints),
  }, HeldLocks)
  all[self] = true
  return self
end

-- Returns true if both clients use one etcd cluster. One common member is enough, because a member
-- belongs to one cluster. The cluster ID proves nothing: clusters that were set up alike have the
-- same.
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

-- Returns true if the lock is held. If nginx has ended the function of its with_lock, nothing would
-- unlock it any more: then this releases it and returns false.
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

-- Returns the held lock of this name that excludes all others, or nil.
local function find_live(self, full_name)
  local lock = self._locks[full_name]
  return lock and is_live(self, lock) and lock or nil
end

-- Returns the key of the set of locks that may be held side by side: readers, or permits, of one
-- name. Returns nil for a mode that excludes all others.
local function get_group(mode, full_name)
  if mode == "read" then
    return full_name
  end
  return mode == "permit" and full_name .. "\0permit" or nil
end

-- Returns a held read lock of one of the names for which is_match(lock, argument) is true, or nil.
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

-- Returns a held lock of one of the names that excludes all others and for which
-- is_match(lock, argument) is true, or nil.
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

-- Returns a lock by which the owner holds one of the names, and the lock by which it holds all of
-- them; nil for each if there is none.
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

-- Releases the locks of a group whose `with_lock` nginx has ended. They would block the
-- acquisition.
local function release_cut_off(self, group)
  for lock in pairs(self._sharers[group] or EMPTY) do
    if lock._run then
      is_live(self, lock) -- releases it
    end
  end
end

--- Returns the lock that the owner of the acquisition holds already and gets again, or nil. Always
-- nil for a permit, because each call takes another one.
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

--- Removes a lock that is released, so that its owner can take it anew.
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

-- Describes another owner, for messages.
local function describe_owner(owner)
  if type(owner) == "string" or type(owner) == "number" then
    return string.format("another owner of this program, %s", quote(to_string(owner)))
  end
  return (type(owner) == "thread" or owner == MAIN) and "another coroutine of this program"
    or "another owner of this program"
end

-- Returns true if a wait for this lock, which another owner holds, would never end. In a program
-- that blocks while it waits, no owner can unlock it, and only its max_hold ends the hold. In an
-- event loop and in nginx other coroutines go on. But a later phase of an nginx request must not
-- wait for a lock of an earlier phase, which cannot unlock it any more.
local function is_deadlock(lock, chosen)
  return not lock._max_hold and (not runtime.loop(chosen) or runtime.is_past(lock))
end

--- Returns true if a reader must share the key of another reader of this process, or fail, because
-- that reader cannot unlock while the new one waits. If the new reader waited behind a writer that
-- waits for the first reader, the wait would never end.
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

-- Returns true if another client of this process, for the same etcd, has such a lock.
local function is_blocked_by_other_client(self, acquisition, chosen)
  for other in pairs(all) do
    if other ~= self and is_same_etcd(self, other)
      and find_blocking(other, acquisition, chosen) then
      return true
    end
  end
end

-- Returns true if this process holds at least `acquisition.permits` permits that nothing can unlock
-- during the wait. All its permits of the semaphore count, whichever `n` they were taken with.
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

-- Returns a description of the holder that blocks the acquisition for ever, or nil.
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

--- Records that the owner of the acquisition begins to wait for `core_lock`, with the binding of
-- runtime.bind. Returns the wait, for end_wait. The caller must keep it: the record is weak.
-- Only the waits of owners that the caller has named are recorded; for other owners it returns nil,
-- because a coroutine cannot wait twice at once.
function HeldLocks:begin_wait(acquisition, core_lock, binding)
  if acquisition.given_owner == nil or acquisition.mode == "permit" then
    return nil
  end
  -- Weak, because a coroutine that Lua drops during its wait does not call end_wait.
  local waits = self._waits[acquisition.owner] or setmetatable({}, { __mode = "k" })
  local wait = { full_name = acquisition.full_name, core_lock = core_lock, binding = binding }
  waits[wait], self._waits[acquisition.owner] = true, waits
  return wait
end

--- Removes a wait that begin_wait has returned; `wait` may be nil.
function HeldLocks:end_wait(acquisition, wait)
  local waits = wait and self._waits[acquisition.owner]
  if waits then
    waits[wait] = nil
    if not next(waits) then
      self._waits[acquisition.owner] = nil
    end
  end
end

-- Returns message, code if the owner waits for that name already, in another coroutine: the first
-- wait may end only after the second. Returns nil if not.
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

-- Returns a lock of this client that blocks the acquisition; nil or false if there is none. Nil for
-- a permit, because a semaphore has several holders.
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

-- Returns message, code if this client knows without a request that a try would fail.
local function find_try_refusal(self, acquisition)
  local lock = find_holder(self, acquisition)
  if lock then
    local text = "lock %s is held by %s"
    return text:format(quote(acquisition.name), describe_owner(lock._acquisition.owner)), "locked"
  end
end

--- Returns message, code if locks of this process make the acquisition pointless: a try would fail,
-- or a wait would never end. Returns nil if not. `chosen` is connect's option `loop`.
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
    -- The lock may have been dropped. Then garbage collection releases it.
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
