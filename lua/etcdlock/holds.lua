--- Who of this program holds which lock of one client: by it a lock is reentered,
-- and a wait refused that could never end.
local characters = require "etcdlock.characters"
local coroutines = require "etcdlock.coroutines"
local host = require "etcdlock.wait.host"
local numbers = require "etcdlock.numbers"

local quote = characters.quote

local Holds = {}
Holds.__index = Holds

-- Lua 5.1 has no name for its main coroutine. Nobody can name this one.
local MAIN = {}

local NONE = {} -- no locks

-- Those of all clients of this program (keys).
local all = setmetatable({}, { __mode = "k" })

--- The members at `endpoints`, a set, in which a TCP address is the same with and without its
-- scheme, and localhost an address.
local function members_at(endpoints)
  local members = {}
  for _, endpoint in ipairs(endpoints) do
    if not endpoint:find "^unixs?:" then
      endpoint = characters.lower(endpoint):gsub("^https?://", ""):gsub("^localhost:", "127.0.0.1:")
    end
    members[endpoint] = true
  end
  return members
end

--- For a client of the etcd at `endpoints`, a list.
function Holds.new(endpoints)
  local self = setmetatable({
    _locks = setmetatable({}, { __mode = "v" }), -- that exclude all others, by full name
    -- Sets of locks that don't, by what they share. Each has its set, which ends with
    -- the last of them.
    _sharers = setmetatable({}, { __mode = "v" }),
    -- named owner -> the set of its waits, see begin_wait.
    _waits = setmetatable({}, { __mode = "k" }),
    _members = members_at(endpoints),
  }, Holds)
  all[self] = true
  return self
end

--- Is it one etcd? One member is enough, for it belongs to one cluster only. By their ids
-- clusters can't be told apart: those that were set up alike have the same.
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

--- Who asks: what the caller says, else the running coroutine.
function Holds.owner(said)
  if said ~= nil then
    return said
  end
  return coroutines.running() or coroutine.running() or MAIN
end

--- Lets go of a hold whose with_lock can't do that any more.
local function take_over(self, lock)
  self:remove(lock)
  lock._core:outlive()
end

--- Is it held? Not if nobody is left who could let go of it.
local function is_live(self, lock)
  if not lock:_left() then
    return false
  elseif lock._run and lock._count == 1 and host.is_cut_off(lock) then
    take_over(self, lock)
    return false
  end
  return true
end

--- The lock of this name that excludes all others.
local function live(self, full)
  local lock = self._locks[full]
  return lock and is_live(self, lock) and lock or nil
end

--- What a reader, or who has a permit, shares with others; nil: nothing.
local function shared_by(mode, full)
  if mode == "read" then
    return full
  end
  return mode == "permit" and full .. "\0permit" or nil
end

--- Returns a reader's lock of one of the names for which fits(lock, as) is true; or nil.
local function find_reader(self, request, fits, as)
  local fulls = request.fulls
  for i = 1, #fulls do
    local sharers = self._sharers[shared_by("read", fulls[i])]
    for lock in pairs(sharers or NONE) do
      if fits(lock, as) and is_live(self, lock) then
        return lock
      end
    end
  end
end

--- The same of one that excludes all others.
local function find_exclusive(self, request, fits, as)
  local fulls = request.fulls
  for i = 1, #fulls do
    local lock = live(self, fulls[i])
    if lock and fits(lock, as) then
      return lock
    end
  end
end

local function may_reenter(lock, request)
  return lock._request.owner == request.owner and host.is_reentered(lock)
end

local function own_reader(self, request)
  return find_reader(self, request, may_reenter, request)
end

--- A lock that its owner has by which he has one of the names, and one by which he has all
-- of them.
local function own_of_names(self, request)
  local fulls, some, all_by = request.fulls, nil, nil
  for i = 1, #fulls do
    local lock = live(self, fulls[i])
    lock = lock and may_reenter(lock, request) and lock or nil
    some = some or lock
    if i == 1 then
      all_by = lock
    elseif lock ~= all_by then
      all_by = nil
    end
  end
  return some, all_by
end

--- Releases the permits or read locks, by what they share, whose `with_lock` nginx has ended: they
-- would block what the request asks for.
local function release_cut_off(self, shared)
  for lock in pairs(self._sharers[shared] or NONE) do
    if lock._run then
      is_live(self, lock) -- which releases it
    end
  end
end

--- Returns the lock that is asked for if its owner holds it and may have it again; nil for a
-- permit, because each call takes another one.
function Holds:own(request)
  if request.mode == "permit" then
    release_cut_off(self, shared_by("permit", request.full))
    return nil
  elseif request.mode ~= "read" then
    for _, full in ipairs(request.fulls) do
      release_cut_off(self, shared_by("read", full))
    end
  end
  local _, lock = own_of_names(self, request)
  if request.mode == "leader" then
    return lock and lock._mode == "leader" and lock._says == request.says and lock or nil
  end
  return lock or request.mode == "read" and own_reader(self, request) or nil
end

function Holds:add(lock)
  local shared = shared_by(lock._mode, lock._request.full)
  if not shared then
    local fulls = lock._request.fulls
    for i = 1, #fulls do
      self._locks[fulls[i]] = lock
    end
    return
  end
  local sharers = self._sharers[shared]
  if not sharers then
    sharers = setmetatable({}, { __mode = "k" })
    self._sharers[shared] = sharers
  end
  sharers[lock] = true
  lock._sharers = sharers
end

--- Forgets a lock that was released, so that its owner may take it anew.
function Holds:remove(lock)
  local fulls = lock._request.fulls
  for i = 1, #fulls do
    if self._locks[fulls[i]] == lock then
      self._locks[fulls[i]] = nil
    end
  end
  if lock._sharers then
    lock._sharers[lock] = nil
    lock._sharers = nil
  end
end

-- ---- refusals ----

--- Another owner, for messages.
local function describe(owner)
  if type(owner) == "string" or type(owner) == "number" then
    return string.format("another owner of this program, %s", quote(numbers.text(owner)))
  end
  return (type(owner) == "thread" or owner == MAIN) and "another coroutine of this program"
    or "another owner of this program"
end

--- Would a wait for this lock, another owner's, never end? In a program that
-- blocks, nobody could release it meanwhile, unless its max_hold ends it. In an
-- event loop the others go on; but what an earlier phase of a request has left for a
-- later one to unlock, the later one must not wait for.
local function is_deadlock(lock, chosen)
  return not lock._max_hold and (not host.loop(chosen) or host.is_past(lock))
end

--- Must a reader share the key of others of this program, or do without, because nobody
-- could let go of it while he waits? Behind a writer who waits for them he would wait for
-- ever.
function Holds:must_share(request, chosen)
  for other in pairs(request.mode == "read" and all or NONE) do
    if is_same_etcd(self, other)
      and find_reader(other, request, is_deadlock, chosen) then
      return true
    end
  end
  return false
end

--- A lock that this client has and that is in the way of the request for ever.
local function find_blocking(self, request, chosen)
  return find_exclusive(self, request, is_deadlock, chosen)
    or request.mode ~= "read" and find_reader(self, request, is_deadlock, chosen)
    or nil
end

--- The same of another client of this program, of the same etcd.
local function is_blocked_elsewhere(self, request, chosen)
  for other in pairs(all) do
    if other ~= self and is_same_etcd(self, other)
      and find_blocking(other, request, chosen) then
      return true
    end
  end
end

--- Does this program hold at least `request.permits` permits that nothing can release during the
-- wait? All its permits of the semaphore count, whatever number they were taken with.
local function are_blocked(self, request, chosen)
  local shared, held = shared_by("permit", request.full), 0
  for other in pairs(all) do
    for lock in pairs(is_same_etcd(self, other) and other._sharers[shared] or NONE) do
      local counts = is_live(other, lock) and is_deadlock(lock, chosen)
      held = held + (counts and 1 or 0)
    end
  end
  return held >= request.permits
end

--- Who is it that holds the lock for ever?
local function find_deadlock(self, request, chosen)
  if request.mode == "permit" then
    return are_blocked(self, request, chosen) and "this program, with all permits" or nil
  end
  local lock = find_blocking(self, request, chosen)
  if lock then
    return host.is_past(lock) and "an earlier phase of this request"
      or describe(lock._request.owner)
  elseif is_blocked_elsewhere(self, request, chosen) then
    return "another client of this program"
  end
end

-- ---- waits ----

--- Records that the owner of this request begins to wait for `core_lock`, with the tie of
-- host.tie. Returns the wait, for end_wait: the caller must keep it, because the record is weak.
-- Returns nil, and records nothing, unless the owner is a named one: no other can wait in two
-- coroutines at once.
function Holds:begin_wait(request, core_lock, tie)
  if request.said == nil or request.mode == "permit" then
    return nil
  end
  -- Weak: a wait that Lua drops ends only when its core lock is collected.
  local waits = self._waits[request.owner] or setmetatable({}, { __mode = "k" })
  local wait = { full = request.full, core_lock = core_lock, tie = tie }
  waits[wait], self._waits[request.owner] = true, waits
  return wait
end

function Holds:end_wait(request, wait)
  local waits = wait and self._waits[request.owner]
  if waits then
    waits[wait] = nil
    if not next(waits) then
      self._waits[request.owner] = nil
    end
  end
end

--- Returns why the owner of this request can't wait: it waits for that name already, in another
-- coroutine, and the first wait may end only after the second.
local function wait_refusal(self, request)
  if request.mode == "permit" then
    return nil
  end
  for wait in pairs(self._waits[request.owner] or NONE) do
    if wait.full == request.full and wait.core_lock:wait(0) == nil
      and host.is_waiting(wait.tie) then
      local text = "lock %s: its owner waits for it already, in another coroutine"
      return text:format(quote(request.name)), "deadlock"
    end
  end
end

--- Returns why the owner of this request would wait for its own hold: message, code.
function Holds:own_refusal(request)
  local is_writer = request.mode ~= "read" and request.mode ~= "permit"
  if is_writer and own_reader(self, request) then
    local text = "lock %s: its owner holds it to read; a read hold cannot be upgraded to write"
    return text:format(quote(request.name)), "deadlock"
  end
  if request.mode == "leader" and own_of_names(self, request) then
    local text = "election %s: its owner holds that name already, but not with this value;"
      .. " a leader changes its value with proclaim"
    return text:format(quote(request.name)), "deadlock"
  end
  local some = request.mode == "multi" and own_of_names(self, request)
  if some then
    local text = "lock %s: its owner holds %s already, but not all names in one hold;"
      .. " unlock that first"
    return text:format(quote(request.name), quote(some:name())), "deadlock"
  end
end

local function any()
  return true
end

local function try_refusal(self, request)
  if request.mode == "permit" then
    return nil
  end
  local lock = find_exclusive(self, request, any)
    or request.mode ~= "read" and find_reader(self, request, any)
  if lock then
    local text = "lock %s is held by %s"
    return text:format(quote(request.name), describe(lock._request.owner)), "locked"
  end
end

--- Does somebody else of this program hold what is asked for, so that it makes no sense
-- to ask: message, code.
function Holds:refusal(request, try, chosen)
  local message, code = self:own_refusal(request)
  if message then
    return message, code
  elseif try then
    return try_refusal(self, request)
  end
  message, code = wait_refusal(self, request)
  if message then
    return message, code
  end
  local holder = find_deadlock(self, request, chosen)
  if holder and not host.loop(chosen) then
    -- It may have been dropped, and then is released when Lua collects it.
    collectgarbage()
    collectgarbage()
    holder = find_deadlock(self, request, chosen)
  end
  if holder then
    local text = "%s %s is held by %s, which can't release it while this one waits"
    local what = request.mode == "permit" and "semaphore" or "lock"
    return text:format(what, quote(request.name), holder), "deadlock"
  end
end

return Holds
