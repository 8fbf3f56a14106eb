--- How a client takes a lock: who asks, who has it already, and what is asked
-- of the core.
local core = require "etcdlock.core"
local Lock = require "etcdlock.lock"
local Pending = require "etcdlock.pending"
local label = require "etcdlock.label"
local loops = require "etcdlock.loops"
local options = require "etcdlock.options"
local protect = require "etcdlock.protect"

local M = {}

-- How long a try may take when etcd doesn't answer.
local TRY_WAIT = 2

-- Lua 5.1 has no name for its main coroutine. Nobody can name this one.
local MAIN = {}

--- Who asks: what the caller says, else the running coroutine.
local function owner_of(request)
  if request.owner ~= nil then
    return request.owner
  end
  return protect.running() or coroutine.running() or MAIN
end

local function live_hold(self, full)
  local lock = self._holds[full]
  return lock and lock:_left() and lock or nil
end

--- Sends the request: core lock | nil, message, code.
local function post(self, full, request)
  local try = request.timeout == 0
  local said = label.write(request.owner, request.value)
  request.owner = owner_of(request)
  return self._core:lock(full, said, try and TRY_WAIT or request.timeout, request.max_hold, try)
end

--- Waits for the core's verdict; whatever interrupts the wait gives it up.
local function wait_for(self, core_lock, leash)
  local ok, message, code = self:_await {
    poll = function(seconds)
      return core_lock:wait(seconds)
    end,
    arm = function(id, served)
      return core_lock:arm("decided", id, served)
    end,
    give_up = function()
      core_lock:release()
      loops.unleash(self._hub, leash)
    end,
    leash = leash,
  }
  if not ok then
    core_lock:release() -- it may be only the wait that has failed
    loops.unleash(self._hub, leash)
  end
  return ok, message, code
end

--- The lock that the core has granted.
local function wrap_hold(self, core_lock, full, name, request, leash)
  local lock = Lock.new(self, core_lock, name, request, leash)
  self._holds[full] = lock
  return lock
end

--- Those who wait for a name: core lock -> leash. Kept by them alone, and keeps
-- none of them: a coroutine that waits may be forgotten, and granted the lock all
-- the same.
local function who_wait(self, full)
  local waiting = self._waiting[full] or setmetatable({}, { __mode = "kv" })
  self._waiting[full] = waiting
  return waiting
end

local function ask_core(self, full, name, request)
  local core_lock, message, code = post(self, full, request)
  if not core_lock then
    return nil, message, code
  end
  local leash = { lock = core_lock }
  local waiting = who_wait(self, full)
  waiting[core_lock] = leash
  local ok, why, why_code = wait_for(self, core_lock, leash)
  waiting[core_lock] = nil
  if not ok then
    return nil, why, why_code
  end
  return wrap_hold(self, core_lock, full, name, request, leash)
end

--- Another owner, for messages.
local function describe_owner(owner)
  if type(owner) == "string" or type(owner) == "number" then
    return string.format("another owner of this program, %q", tostring(owner))
  end
  return (type(owner) == "thread" or owner == MAIN) and "another coroutine of this program"
    or "another owner of this program"
end

--- Somebody else in this program holds it. In a program that blocks, nobody
-- could release it while we wait, unless its max_hold ends it: then nothing is
-- answered, and the wait may begin. Nor is it in an event loop, where the others
-- go on.
local function refuse_local(self, name, hold, try)
  local held = string.format("lock %q is held by %s", name, describe_owner(hold._owner))
  if try then
    return held, "locked"
  elseif not hold._max_hold and not loops.current(self._hub) then
    return held .. ", which can't release it while this one waits", "deadlock"
  end
end

local function own_hold(self, full, request)
  local hold = live_hold(self, full)
  local is_own = hold and hold._owner == owner_of(request)
    and not loops.is_elsewhere(hold._leash, hold._owner, hold._place)
  return is_own and hold or nil
end

--- Is there a hold of this name, or a wait to which it may be granted; and is it
-- tied to a request?
local function see_hold(self, full)
  local hold, waiting = live_hold(self, full), self._waiting[full]
  local is_awaited = waiting ~= nil and next(waiting) ~= nil
  local leash = hold and hold._leash or is_awaited and select(2, next(waiting))
  return hold ~= nil or is_awaited, leash and leash.link ~= nil
end

--- Where others go on while we wait, many may ask for what one holds: then
-- looking for garbage takes a tenth of the time at most.
local function may_collect(self)
  return core.now() >= self._collect_at or not loops.current(self._hub)
end

--- The hold of this name, if somebody else has it. One whose owner is gone
-- without a trace is released on the way; one that is tied leaves a trace. No
-- local of ours may keep it.
local function foreign_hold(self, full)
  local is_held, is_tied = see_hold(self, full)
  if is_held and not is_tied and may_collect(self) then
    local began = core.now()
    collectgarbage()
    collectgarbage()
    self._collect_at = core.now() + 9 * (core.now() - began)
  end
  return live_hold(self, full)
end

--- What is asked: full name, request | nil, message, code.
local function read(self, where, name, opts)
  local full, message, code = options.name(where, self._prefix, name)
  if not full then
    return nil, message, code
  end
  local request
  request, message, code = options.lock(where, self._timeout, opts)
  if not request then
    return nil, message, code
  end
  request.place = loops.place()
  self:_tell_losses()
  return full, request
end

--- One more of a hold that the same owner has: lock, or nil.
local function reenter(self, full, request)
  local hold = own_hold(self, full, request)
  if hold then
    hold._count = hold._count + 1
  end
  return hold
end

--- Why this wait can't be here: message, code.
local function refusal(self, full, name, request)
  local try = request.timeout == 0
  local message, code = loops.refusal(self._hub)
  if message and not try then
    return string.format("lock %q: %s", name, message), code
  end
  local hold = foreign_hold(self, full)
  if hold then
    return refuse_local(self, name, hold, try)
  end
end

--- Takes the lock, and waits for it if need be; see Client:lock.
function M.wait(self, where, name, opts)
  local full, request, code = read(self, where, name, opts)
  if not full then
    return nil, request, code
  end
  local hold = reenter(self, full, request)
  if hold then
    return hold
  end
  local message
  message, code = refusal(self, full, name, request)
  if code then
    return nil, message, code
  end
  return ask_core(self, full, name, request)
end

--- Asks the core: core lock, finish | nil, message, code; see Pending.new.
local function begin(self, full, name, request)
  local core_lock, message, code = post(self, full, request)
  if not core_lock then
    return nil, message, code
  end
  return core_lock, function()
    return wrap_hold(self, core_lock, full, name, request)
  end
end

--- Asks for the lock and returns what is pending; see Client:lock_async.
function M.start(self, where, name, opts)
  local full, request, code = read(self, where, name, opts)
  if not full then
    return nil, request, code
  end
  local fd, message
  fd, message, code = self._core:wake_fd()
  if not fd then
    return nil, message, code
  end
  request.owner = owner_of(request)
  if own_hold(self, full, request) then
    -- Counted when it is asked for, so that nothing is to be undone if it never
    -- is.
    return Pending.again(self._hub, function()
      return reenter(self, full, request)
    end, function()
      return begin(self, full, name, request)
    end)
  end
  local core_lock, finish
  core_lock, finish, code = begin(self, full, name, request)
  if not core_lock then
    return nil, finish, code
  end
  return Pending.new(self._hub, core_lock, finish)
end

return M
