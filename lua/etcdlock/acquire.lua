--- How a client takes a lock: the checks, the wait, and the four forms of each call.
--
-- A `target` says which lock a call asks for. Its fields: mode ("lock", "read", "write", "permit",
-- "multi" or "leader"), name (for "multi": names, a list), permits (for "permit": the semaphore's
-- `n`), leader_value (for "leader"), and is_in_with (true in a with_lock call). Target and options
-- together make an acquisition.
local Lock = require "etcdlock.lock"
local Pending = require "etcdlock.pending"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local label = require "etcdlock.label"
local lock_options = require "etcdlock.lock_options"
local names = require "etcdlock.names"
local quote = require("etcdlock.text").quote
local runtime = require "etcdlock.wait.runtime"
local waits = require "etcdlock.wait.waits"

local M = {}

local unpack_list = table.unpack or unpack -- luacheck: ignore unpack

-- Seconds that a try may take if etcd does not answer. If a wait would stop an nginx worker or an
-- event loop, a try has less: the second value, or the third if the client has no lease yet. It
-- then needs one more request, and perhaps a connection.
local TRY_TIMEOUT, SHORT_TRY_TIMEOUT, FIRST_SHORT_TRY_TIMEOUT = 2, 0.1, 0.5

-- Seconds after which a call that still waits is logged.
local LOG_WAIT_AFTER = 0.1

-- Modes whose keys cannot linger, with the message.
local NO_LINGER = {
  permit = "none: a permit cannot linger",
  multi = "none: a multi-lock cannot linger",
  leader = "none: a leadership cannot linger",
}

-- If the client crashed while such a key lingers, the lock delay would block other clients although
-- the lock was released.
local NO_LINGER_WITH_DELAY = "none together with lock_delay: a released lock would block others"
  .. " after a crash"

-- ---- acquisitions ----

-- Returns the target's names with the client's prefix, a list; nil, message, code.
local function read_names(self, where, target)
  if target.mode == "multi" then
    return names.add_prefixes(where, self._prefix, target.names)
  elseif target.mode == "lock" and type(target.name) == "table" then
    check.raise(string.format("%s: name = %s, wanted a string; for several names, use %s", where,
      tostring(target.name), (where:gsub("lock", "multi_lock"))))
  end
  local full_name, message, code = names.add_prefix(where, self._prefix, target.name)
  return full_name and { full_name }, message, code
end

-- Checks that the mode of the target allows the options: true | nil, message, "invalid".
local function check_mode(where, target, opts)
  if opts.linger and NO_LINGER[target.mode] then
    return check.invalid(where, "linger", opts.linger, NO_LINGER[target.mode])
  elseif opts.linger and (opts.lock_delay or 0) > 0 then
    return check.invalid(where, "linger", opts.linger, NO_LINGER_WITH_DELAY)
  elseif target.mode ~= "leader" then
    return true
  elseif opts.value then
    return check.invalid(where, "value", opts.value, "none: a leader's value is an argument")
  end
  return lock_options.check_value(where, target.leader_value)
end

-- Returns the acquisition of checked options. It copies them, because the caller may change its
-- table. A lock keeps its acquisition as long as it lives, so it should have at most 16 fields, and
-- the constructor at most 16, also if they are nil: with more, a Lua table takes twice the memory.
-- find_refusal adds `stops_loop` (a wait here would stop an nginx worker or an event loop) and
-- `must_share` (see held_locks.lua); start adds `limit`, the seconds for which the core waits;
-- find_holder adds `holder_label` and `holder_read_at` during a long wait.
local function new_acquisition(self, target, full_names, opts, timeout)
  local given_names = target.names and { unpack_list(target.names) } or { target.name }
  local acquisition = {
    mode = target.mode,
    names = given_names, -- without the prefix
    name = names.join(given_names), -- for messages
    full_names = full_names, -- with the prefix
    -- As the core takes it: the full names, joined by NUL.
    full_name = full_names[2] and table.concat(full_names, "\0") or full_names[1],
    permits = target.permits,
    leader_value = target.leader_value,
    timeout = timeout, -- seconds; nil: no limit
    try = timeout == 0,
    max_hold = opts.max_hold,
    linger = opts.linger,
    lock_delay = opts.lock_delay or 0,
    given_owner = opts.owner, -- nil: the running coroutine
    owner = self._held_locks.identify_owner(opts.owner),
    value = opts.value, -- nil once the lock is held: etcd has it
    started_at = self._events.is_on and core.now() or nil,
  }
  if target.is_in_with then
    acquisition.is_in_with = true -- the 17th field
  end
  return acquisition
end

-- Returns the acquisition of a target and the caller's options; nil, message, code.
local function read(self, where, target, opts)
  local full_names, message, code = read_names(self, where, target)
  if not full_names then
    return nil, message, code
  end
  local checked, timeout, ok
  checked, timeout, code = lock_options.read(where, self._timeout, opts)
  if not checked then
    return nil, timeout, code -- timeout is the message
  end
  ok, message, code = check_mode(where, target, checked)
  if not ok then
    return nil, message, code
  end
  local acquisition = new_acquisition(self, target, full_names, checked, timeout)
  -- After the options were copied, because an on_lost handler may change the caller's table.
  self._loss_listeners:call_due()
  self._events:deliver()
  return acquisition
end

-- Logs that the acquisition has failed. Returns nil, message, code.
local function fail(self, acquisition, message, code)
  if acquisition.started_at then
    self._events:report_not_acquired(acquisition, message, code)
  end
  return nil, message, code
end

-- Returns the seconds for which a try may wait for etcd.
local function get_try_timeout(self, acquisition)
  if not acquisition.stops_loop then
    return TRY_TIMEOUT
  end
  return self._core:lease() and SHORT_TRY_TIMEOUT or FIRST_SHORT_TRY_TIMEOUT
end

-- Starts the acquisition in the core: core lock, binding of runtime.bind | nil, message, code.
local function start(self, acquisition)
  local message, code = runtime.leaving()
  if not message then
    message, code = self:_find_outage(acquisition.stops_loop)
  end
  if message then
    local text = string.format("lock %s: %s", quote(acquisition.name), message)
    return fail(self, acquisition, text, code)
  end
  acquisition.limit = acquisition.try and get_try_timeout(self, acquisition) or acquisition.timeout
  local value = acquisition.leader_value or label.write(acquisition)
  local core_lock
  core_lock, message, code = self._core:lock(acquisition.full_name, value, acquisition)
  if not core_lock then
    return fail(self, acquisition, message, code)
  end
  return core_lock, runtime.bind(core_lock)
end

-- Returns the holder of the lock (label.lua) as far as this client knows it without a request, or
-- nil.
local function find_holder(self, core_lock, acquisition)
  local text, ago = core_lock:take_holder()
  if text then
    acquisition.holder_label, acquisition.holder_read_at = text, core.now() - ago
  end
  if self._held_locks:is_holder(acquisition) then
    return label.describe_self()
  end
  text = acquisition.holder_label
  return text and label.read_holder(text, core.now() - acquisition.holder_read_at)
end

-- Returns a function that reports to the log that the acquisition still waits, when that is due. It
-- returns the seconds until the next report; nil: there is none.
local function make_wait_reporter(self, core_lock, acquisition)
  local due = LOG_WAIT_AFTER
  return function()
    local waited = core.now() - acquisition.started_at
    if due == LOG_WAIT_AFTER and waited >= due then
      due = self._long_wait
      self._events:report_waiting(acquisition)
    end
    if due == self._long_wait and waited >= due then
      due = nil
      self._events:report_still_waiting(acquisition, find_holder(self, core_lock, acquisition))
    end
    return due and due - waited
  end
end

-- Waits for the outcome of a core lock, up to `limit` seconds: true | false, message, code | nil:
-- no outcome within the limit. An error during the wait cancels the acquisition.
local function await_outcome(self, core_lock, acquisition, binding, limit)
  local wait = {
    object = core_lock, binding = binding, limit = limit, may_collect = not acquisition.try,
  }
  local ok, message, code = self:_await(waits.Decided, wait)
  if ok == false then
    wait:give_up() -- perhaps only the wait has failed, and the core lock is still pending
  end
  return ok, message, code
end

local function await_and_log(self, core_lock, acquisition, binding)
  local report = acquisition.started_at and make_wait_reporter(self, core_lock, acquisition)
  local limit = report and report()
  while limit do
    local ok, message, code = await_outcome(self, core_lock, acquisition, binding, limit)
    if ok ~= nil then
      return ok, message, code
    end
    limit = report()
  end
  return await_outcome(self, core_lock, acquisition, binding)
end

-- Returns the lock for a core lock that is held.
local function new_lock(self, core_lock, acquisition, binding)
  acquisition.value, acquisition.holder_label = nil, nil
  local lock = Lock.new(self, core_lock, acquisition, binding)
  self._held_locks:add(lock)
  if acquisition.started_at then
    self._events:report_acquired(acquisition, lock)
  end
  return lock
end

-- Ends the acquisition by the outcome of its core lock: lock | nil, message, code.
local function finish(self, core_lock, acquisition, binding, ok, message, code)
  if ok then
    if binding then
      runtime.share(self._wakeups, binding)
    end
    return new_lock(self, core_lock, acquisition, binding)
  end
  runtime.unbind(self._wakeups, binding)
  if acquisition.stops_loop and code == "unavailable" then
    self:_suspect_outage()
  elseif code == "timeout" then
    message = message .. label.format_holder(find_holder(self, core_lock, acquisition))
  end
  return fail(self, acquisition, message, code)
end

-- Returns the lock that the owner holds already, with its count incremented; nil if there is none.
local function reenter(self, acquisition)
  local lock = self._held_locks:find_reentrant(acquisition)
  if lock then
    lock._count = lock._count + 1
  end
  return lock
end

-- Returns why the acquisition must not start: message, code; nil if it may. A try is allowed also
-- where a wait would stop an nginx worker or an event loop, but then it must be short.
local function find_refusal(self, acquisition)
  local chosen = self._wakeups.chosen
  local message, code = runtime.refusal(chosen)
  if message and not acquisition.try then
    return string.format("lock %s: %s", quote(acquisition.name), message), code
  end
  acquisition.stops_loop = message ~= nil
  acquisition.must_share = self._held_locks:must_share(acquisition, chosen)
  return self._held_locks:find_refusal(acquisition, chosen)
end

-- ---- the four forms of a call ----
-- Each takes the client, the name of the call for messages, the target and the caller's options.

--- Takes a lock, and waits for it: lock | nil, message, code. See client:lock.
function M.wait(self, where, target, opts)
  local acquisition, message, code = read(self, where, target, opts)
  if not acquisition then
    return nil, message, code
  end
  local lock = reenter(self, acquisition)
  if lock then
    return lock
  end
  message, code = find_refusal(self, acquisition)
  if code then
    return fail(self, acquisition, message, code)
  end
  local core_lock, binding
  core_lock, binding, code = start(self, acquisition)
  if not core_lock then
    return nil, binding, code -- binding is the message
  end
  local wait = self._held_locks:begin_wait(acquisition, core_lock, binding)
  local ok
  ok, message, code = await_and_log(self, core_lock, acquisition, binding)
  self._held_locks:end_wait(acquisition, wait)
  return finish(self, core_lock, acquisition, binding, ok, message, code)
end

--- Takes a lock if it is free: lock | nil, message, code. See client:try_lock.
function M.try(self, where, target, opts)
  local try_opts = { timeout = 0 }
  if type(opts) == "table" then
    for field, value in pairs(opts) do
      if field ~= "timeout" then
        try_opts[field] = value
      end
    end
  elseif opts ~= nil then
    try_opts = opts -- M.wait raises
  end
  return M.wait(self, where, target, try_opts)
end

-- Starts an acquisition for M.start: core lock, on_outcome | nil, message, code. For the function
-- on_outcome see Pending.new.
local function start_async(self, acquisition)
  local core_lock, binding, code = start(self, acquisition)
  if not core_lock then
    return nil, binding, code -- binding is the message
  end
  local report = acquisition.started_at and make_wait_reporter(self, core_lock, acquisition)
  return core_lock, function(ok, message, failure)
    if ok ~= nil then
      return finish(self, core_lock, acquisition, binding, ok, message, failure)
    elseif report then
      report()
    end
  end
end

--- Starts to take a lock and returns at once: pending | nil, message, code. See client:lock_async.
function M.start(self, where, target, opts)
  local acquisition, message, code = read(self, where, target, opts)
  if not acquisition then
    return nil, message, code
  end
  local fd
  fd, message, code = self._wakeups:fd()
  if not fd then
    return fail(self, acquisition, message, code)
  end
  if self._held_locks:find_reentrant(acquisition) then
    -- The count is incremented by the first call of pending:step. So nothing is to be undone if the
    -- pending lock is dropped before.
    return Pending.new_reentrant(self._wakeups, function()
      return reenter(self, acquisition)
    end, function()
      return start_async(self, acquisition)
    end)
  end
  message, code = self._held_locks:find_own_refusal(acquisition)
  if message then
    return fail(self, acquisition, message, code)
  end
  local core_lock, on_outcome
  core_lock, on_outcome, code = start_async(self, acquisition)
  if not core_lock then
    return nil, on_outcome, code -- on_outcome is the message
  end
  return Pending.new(self._wakeups, core_lock, on_outcome)
end

-- Returns what M.with returns after the function has returned `results`, and unlock its own
-- results.
local function join_results(results, unlocked, message, code)
  -- With "unavailable" the lock was held until unlock began, and only the confirmation of the
  -- release is missing. So the function ran under the lock.
  if unlocked or code == "unavailable" then
    return true, unpack_list(results, 1, results.n)
  end
  -- The fourth result tells that the function has run: a caller that repeats the call would do its
  -- work twice.
  return nil, message, code, true, unpack_list(results, 1, results.n)
end

local function pack(...)
  return { n = select("#", ...), ... }
end

--- Takes a lock, calls fn(lock), and unlocks when `fn` ends. An error of `fn` is raised again, the
-- same object. `opts` may be left out.
-- Returns true, results of `fn`; or nil, message, code, if the lock was not taken; or nil, message,
-- code, true, results of `fn`, if it was lost or could not be released. See client:with_lock.
function M.with(self, where, target, opts, fn)
  opts, fn = check.options_and_function(where, opts, fn)
  target.is_in_with = true
  local lock, message, code = M.wait(self, where, target, opts)
  if not lock then
    return nil, message, code
  end
  -- runtime.is_cut_off looks for this function on the stack, where it stays as long as `fn` runs.
  -- `fn` itself need not be a function. The local variable prevents a tail call.
  local function call_fn()
    local results = pack(fn(lock))
    return results
  end
  local is_outermost = lock:count() == 1
  if is_outermost then
    lock._run = runtime.run(call_fn)
  end
  local unlocked, reason, reason_code
  local results = coroutines.call_with_cleanup(function()
    if is_outermost then
      lock._run = nil
    end
    unlocked, reason, reason_code = lock:unlock()
  end, call_fn, function(traceback, err)
    self._events:report_raised(lock, traceback, err)
  end)
  return join_results(results, unlocked, reason, reason_code)
end

--- Adds to `class` the four forms of the method `name`: name, try_name, with_name (or
-- `with_method`, if given) and name_async. Messages call an object of the class `noun`. Each method
-- passes its arguments to prepare, which returns the client, the target, and the other arguments.
function M.add(class, noun, name, prepare, with_method)
  local function add_form(method, form)
    local where = noun .. ":" .. method
    local function call(client, ...)
      return form(client, where, ...)
    end
    class[method] = function(...)
      return call(prepare(...))
    end
  end
  add_form(name, M.wait)
  add_form("try_" .. name, M.try)
  add_form(with_method or "with_" .. name, M.with)
  add_form(name .. "_async", M.start)
end

return M
