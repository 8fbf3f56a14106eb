--- How a client takes a lock: what is asked of the core, and what comes of it.
local Lock = require "etcdlock.lock"
local Pending = require "etcdlock.pending"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local host = require "etcdlock.wait.host"
local label = require "etcdlock.label"
local lock_options = require "etcdlock.lock_options"
local names = require "etcdlock.names"
local of_lock = require "etcdlock.wait.of_lock"
local quote = require("etcdlock.characters").quote

local M = {}

-- How long a try may take when etcd doesn't answer; where it stops all others meanwhile;
-- and there without a lease, which means to get one first, and to connect perhaps.
local TRY_WAIT, PRESSED_WAIT, FIRST_PRESSED_WAIT = 2, 0.1, 0.5

-- Whose key can't linger, and why.
local NO_LINGER = {
  permit = "none: a permit goes back at once",
  multi = "none: of several keys none stays",
  leader = "none: the next leader comes at once",
}

-- After a crash of the client, such a key would keep others out although its lock was released.
local NO_LINGER_WITH_DELAY = "none together with lock_delay: a released lock would block others"
  .. " after a crash"

--- The names as the core and holds.lua know them: a list | nil, message, code.
local function read_names(self, where, wish)
  if wish.mode == "multi" then
    return names.fulls(where, self._prefix, wish.names)
  end
  local full, message, code = names.full(where, self._prefix, wish.name)
  return full and { full }, message, code
end

--- Do the options go with this wish? True | nil, message, "invalid".
local function check_fits(where, wish, opts)
  if opts.linger and NO_LINGER[wish.mode] then
    return check.invalid(where, "linger", opts.linger, NO_LINGER[wish.mode])
  elseif opts.linger and (opts.lock_delay or 0) > 0 then
    return check.invalid(where, "linger", opts.linger, NO_LINGER_WITH_DELAY)
  elseif wish.mode ~= "leader" then
    return true
  elseif opts.value then
    return check.invalid(where, "value", opts.value, "none: what a leader says is all there is")
  end
  return lock_options.value(where, wish.says)
end

--- What is asked with options that are checked. A lock keeps it, so it should stay small:
-- above 16 fields a table takes twice as much.
local function new_request(self, wish, fulls, opts, timeout)
  local asked = wish.names and { (table.unpack or unpack)(wish.names) } -- luacheck: ignore unpack
    or { wish.name }
  return {
    mode = wish.mode,
    names = asked,
    name = names.shown(asked),
    fulls = fulls,
    full = fulls[2] and table.concat(fulls, "\0") or fulls[1],
    permits = wish.permits,
    says = wish.says,
    timeout = timeout,
    try = timeout == 0,
    max_hold = opts.max_hold,
    linger = opts.linger,
    lock_delay = opts.lock_delay or 0,
    said = opts.owner,
    owner = self._holds.owner(opts.owner),
    value = opts.value,
    began = self._events.is_on and core.now() or nil,
  }
end

--- What is asked: request | nil, message, code. A wish says which lock: its mode ("lock",
-- "read", "write", "permit", "multi", "leader"), its name, of a permit how many there are
-- (permits), instead of a name the names of "multi", and what a "leader" says.
local function read(self, where, wish, opts)
  local fulls, message, code = read_names(self, where, wish)
  if not fulls then
    return nil, message, code
  end
  local checked, timeout, ok
  checked, timeout, code = lock_options.read(where, self._timeout, opts)
  if not checked then
    return nil, timeout, code -- the message
  end
  ok, message, code = check_fits(where, wish, checked)
  if not ok then
    return nil, message, code
  end
  local request = new_request(self, wish, fulls, checked, timeout)
  self._losses:tell() -- whose handlers may change the options
  self._events:deliver()
  return request
end

--- Tells that nothing came of the request, and why.
local function refuse(self, request, message, code)
  if request.began then
    self._events:report_not_acquired(request, message, code)
  end
  return nil, message, code
end

--- How long a try may wait for etcd.
local function try_wait(self, request)
  if not request.is_pressed then
    return TRY_WAIT
  end
  return self._core:lease() and PRESSED_WAIT or FIRST_PRESSED_WAIT
end

--- Sends the request: core lock, what ties it | nil, message, code.
local function post(self, request)
  local message, code = host.leaving()
  if not message then
    message, code = self:_outage(request.is_pressed)
  end
  if message then
    return refuse(self, request, string.format("lock %s: %s", quote(request.name), message), code)
  end
  request.limit = request.try and try_wait(self, request) or request.timeout
  local says = request.says or label.write(request)
  local core_lock
  core_lock, message, code = self._core:lock(request.full, says, request)
  if not core_lock then
    return refuse(self, request, message, code)
  end
  return core_lock, host.tie(core_lock)
end

-- After so many seconds a lock that isn't there yet is told to be waited for.
local WAITING_AFTER = 0.1

--- Waits for the core's verdict; whatever interrupts the wait gives it up. Nil: there was
-- none within `limit`.
local function await_verdict(self, core_lock, request, tie, limit)
  local wait = { core_lock = core_lock, tie = tie, limit = limit, may_collect = not request.try }
  local ok, message, code = self:_await(of_lock.Decided, wait)
  if ok == false then
    wait:give_up() -- it may be only the wait that has failed
  end
  return ok, message, code
end

local function wait_for(self, core_lock, request, tie)
  if request.began then
    local ok, message, code = await_verdict(self, core_lock, request, tie, WAITING_AFTER)
    if ok ~= nil then
      return ok, message, code
    end
    self._events:report_waiting(request)
  end
  return await_verdict(self, core_lock, request, tie)
end

--- The lock that the core has granted.
local function wrap(self, core_lock, request, tie)
  request.value = nil -- etcd has it
  local lock = Lock.new(self, core_lock, request, tie)
  self._holds:add(lock)
  if request.began then
    self._events:report_acquired(request, lock)
  end
  return lock
end

--- What the core's verdict makes of the request: lock | nil, message, code.
local function conclude(self, core_lock, request, tie, ok, message, code)
  if ok then
    if tie then
      host.share(self._wakeups, tie)
    end
    return wrap(self, core_lock, request, tie)
  end
  host.untie(self._wakeups, tie)
  if request.is_pressed and code == "unavailable" then
    self._scout:send()
  end
  return refuse(self, request, message, code)
end

--- The lock that the same owner holds already, taken once more; or nil.
local function reenter(self, request)
  local lock = self._holds:own(request)
  if lock then
    lock._count = lock._count + 1
  end
  return lock
end

--- Why this wait can't be here: message, code. A try can be everywhere, but must be short
-- where it stops what should go on.
local function refusal(self, request)
  local try, chosen = request.try, self._wakeups.chosen
  local message, code = host.refusal(chosen)
  if message and not try then
    return string.format("lock %s: %s", quote(request.name), message), code
  end
  request.is_pressed = message ~= nil
  request.must_share = self._holds:must_share(request, chosen)
  return self._holds:refusal(request, try, chosen)
end

--- Takes the lock, and waits for it if need be; see client:lock.
function M.wait(self, where, wish, opts)
  local request, message, code = read(self, where, wish, opts)
  if not request then
    return nil, message, code
  end
  local lock = reenter(self, request)
  if lock then
    return lock
  end
  message, code = refusal(self, request)
  if code then
    return refuse(self, request, message, code)
  end
  local core_lock, tie
  core_lock, tie, code = post(self, request)
  if not core_lock then
    return nil, tie, code -- the message
  end
  local wait = self._holds:begin_wait(request, core_lock, tie)
  local ok
  ok, message, code = wait_for(self, core_lock, request, tie)
  self._holds:end_wait(request, wait)
  return conclude(self, core_lock, request, tie, ok, message, code)
end

--- Asks the core: core lock, told | nil, message, code; see Pending.new.
local function begin(self, request)
  local core_lock, tie, code = post(self, request)
  if not core_lock then
    return nil, tie, code -- the message
  end
  local is_told = false
  return core_lock, function(ok, message, why_code)
    if ok ~= nil then
      return conclude(self, core_lock, request, tie, ok, message, why_code)
    elseif request.began and not is_told and core.now() - request.began >= WAITING_AFTER then
      is_told = true
      self._events:report_waiting(request)
    end
  end
end

--- Asks for the lock and returns what is pending; see client:lock_async.
function M.start(self, where, wish, opts)
  local request, message, code = read(self, where, wish, opts)
  if not request then
    return nil, message, code
  end
  local fd
  fd, message, code = self._wakeups:fd()
  if not fd then
    return refuse(self, request, message, code)
  end
  local owns = self._holds:own(request)
  if not owns then
    message, code = self._holds:own_refusal(request)
    if message then
      return refuse(self, request, message, code)
    end
  end
  if owns then
    -- Counted when it is asked for, so that nothing is to be undone if it never is.
    return Pending.again(self._wakeups, function()
      return reenter(self, request)
    end, function()
      return begin(self, request)
    end)
  end
  local core_lock, told
  core_lock, told, code = begin(self, request)
  if not core_lock then
    return nil, told, code
  end
  return Pending.new(self._wakeups, core_lock, told)
end

return M
