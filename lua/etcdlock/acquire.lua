--- How a client takes a lock: the checks, the wait, and the four forms of each call.
--
-- A `target` is a table that says which lock a call asks for:
--   mode          "lock", "read", "write", "permit", "multi" or "leader"
--   name          name of the lock, without the client's prefix
--   names         mode "multi" only, instead of `name`: list of the names
--   permits       mode "permit" only: number of permits of the semaphore
--   leader_value  mode "leader" only: value that the candidate publishes
--   is_in_with    true if the call is a with_lock call
-- An `acquisition` is a table that contains the target and the options of one call: see
-- new_acquisition.
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

-- Seconds for which a try waits for etcd's answer. If the wait stops an nginx worker or an event
-- loop, SHORT_TRY_TIMEOUT applies instead of TRY_TIMEOUT. If, in addition, the client has no lease
-- yet, FIRST_SHORT_TRY_TIMEOUT applies, because the try then needs one more request and perhaps a
-- new connection.
local TRY_TIMEOUT, SHORT_TRY_TIMEOUT, FIRST_SHORT_TRY_TIMEOUT = 2, 0.1, 0.5

-- Seconds after which the event `waiting` reports that a call still waits.
local LOG_WAIT_AFTER = 0.1

-- Mode that does not allow the option `linger` -> the text that follows "wanted" in the message.
local NO_LINGER = {
  permit = "none: a permit cannot linger",
  multi = "none: a multi-lock cannot linger",
  leader = "none: a leadership cannot linger",
}

-- The text after "wanted" for a call with `linger` by a client with a lock delay. If the client
-- crashed while the key of a released lock lingers, the lock delay would begin, and block other
-- clients although the lock is free.
local NO_LINGER_WITH_DELAY = "none for a client with a lock_delay: a released lock would block"
  .. " others after a crash"

-- ---- acquisitions ----

-- Returns the list of the target's names with the client's prefix. Returns nil, message, code if a
-- name is not allowed. Raises for a wrong type.
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

-- Returns true if the mode of the target allows the options `opts`; otherwise nil, message,
-- "invalid".
local function check_mode(self, where, target, opts)
  if opts.linger and NO_LINGER[target.mode] then
    return check.invalid(where, "linger", opts.linger, NO_LINGER[target.mode])
  elseif opts.linger and self._lock_delay > 0 then
    return check.invalid(where, "linger", opts.linger, NO_LINGER_WITH_DELAY)
  elseif target.mode ~= "leader" then
    return true
  elseif opts.value then
    return check.invalid(where, "value", opts.value, "none: a leader's value is an argument")
  end
  return lock_options.check_value(where, target.leader_value)
end

-- Returns the acquisition for options that were checked. The options are copied, because the caller
-- may change its table `opts` during the wait. Other functions add these fields:
--   stops_loop      find_refusal: true if a wait here would stop an nginx worker or an event loop
--   must_share      find_refusal: result of HeldLocks:must_share
--   limit           start: seconds for which the core waits; nil: no limit
--   holder_label    find_holder: value of the holder's key that the core has read last
--   holder_read_at  find_holder: when the core has read that value (core.now)
--
-- The number of fields matters, because each lock keeps its acquisition in memory. A Lua table with
-- more than 16 fields takes twice the memory. A constructor reserves memory for all its fields,
-- also for those that are nil. So there are at most 16 fields.
local function new_acquisition(self, target, full_names, opts, timeout)
  local given_names = target.names and { unpack_list(target.names) } or { target.name }
  return {
    mode = target.mode,
    names = given_names, -- list, without the client's prefix
    name = names.join(given_names), -- for messages
    full_names = full_names, -- list, with the client's prefix
    -- The full names, joined by NUL: the core takes all names of a multi-lock as one string.
    full_name = full_names[2] and table.concat(full_names, "\0") or full_names[1],
    permits = target.permits,
    leader_value = target.leader_value,
    timeout = timeout, -- seconds; nil: no limit
    try = timeout == 0,
    max_hold = opts.max_hold,
    linger = opts.linger,
    given_owner = opts.owner, -- nil: the owner is the running coroutine
    owner = self._held_locks.identify_owner(opts.owner),
    value = opts.value, -- set to nil at the grant: then only etcd keeps the value
    started_at = self._events.is_on and core.now() or nil, -- nil: neither a log nor metrics
    is_in_with = target.is_in_with,
  }
end

-- Returns the acquisition for a target and the caller's options. Returns nil, message, code if a
-- name or an option is not allowed.
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
  ok, message, code = check_mode(self, where, target, checked)
  if not ok then
    return nil, message, code
  end
  local acquisition = new_acquisition(self, target, full_names, checked, timeout)
  -- on_lost functions and the log function run only after the options were copied, because they may
  -- change the caller's table `opts`.
  self._loss_listeners:call_due()
  self._events:deliver()
  return acquisition
end

-- Reports to the log and the metrics that the acquisition has failed. Returns nil, message, code.
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

-- Starts the acquisition in the core. Returns the core lock and its binding (see runtime.bind; nil
-- outside nginx). Returns nil, message, code if the acquisition cannot start.
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
  local value = acquisition.leader_value or label.write(acquisition, self._lock_delay)
  local core_lock
  core_lock, message, code = self._core:lock(acquisition.full_name, value, acquisition)
  if not core_lock then
    return fail(self, acquisition, message, code)
  end
  return core_lock, runtime.bind(core_lock)
end

-- Returns the holder of the lock, a table that label.lua describes. Sends no request: returns nil
-- if this client does not know the holder.
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

-- Returns a function report(), which the waiting call runs from time to time. If a report is due,
-- report() logs that the acquisition still waits: first after LOG_WAIT_AFTER, and a second time
-- after the client's `_long_wait`. report() returns the seconds until the next report is due; nil:
-- there are no more reports.
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

-- Waits up to `limit` seconds (nil: no limit) for the outcome of a core lock. Returns true if the
-- lock is held. Returns false, message, code if the acquisition or the wait has failed. Returns nil
-- if there was no outcome within the limit. An error during the wait cancels the acquisition.
local function await_outcome(self, core_lock, acquisition, binding, limit)
  local wait = {
    object = core_lock, binding = binding, limit = limit, may_collect = not acquisition.try,
  }
  local ok, message, code = self:_await(waits.Decided, wait)
  if ok == false then
    wait:give_up() -- cancels the core lock, which is still pending if only the wait has failed
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

-- Returns a new lock object (lock.lua) for a core lock that is held.
local function new_lock(self, core_lock, acquisition, binding)
  acquisition.value, acquisition.holder_label = nil, nil
  local lock = Lock.new(self, core_lock, acquisition, binding)
  self._held_locks:add(lock)
  if acquisition.started_at then
    self._events:report_acquired(acquisition, lock)
  end
  return lock
end

-- Ends the acquisition. `ok`, `message` and `code` are the outcome of the core lock, in the form in
-- which await_outcome returns it. Returns the lock if `ok` is true; otherwise nil, message, code.
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

-- If the owner of the acquisition holds the lock already, increments the count of that lock and
-- returns the lock. Otherwise returns nil.
local function reenter(self, acquisition)
  local lock = self._held_locks:find_reentrant(acquisition)
  if lock then
    lock._count = lock._count + 1
  end
  return lock
end

-- Returns message, code if the acquisition must not start; nil if it may. Where a wait would stop
-- an nginx worker or an event loop, only a try may start, and get_try_timeout gives it little time.
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
-- Each form takes these arguments: the client `self`; `where`, the name of the call for messages;
-- the target; and `opts`, the caller's options.

--- Takes a lock, and waits until it is free. Returns the lock; or nil, message, code. See
-- client:lock.
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

--- Takes a lock if it is free. Returns the lock; or nil, message, code. See client:try_lock.
function M.try(self, where, target, opts)
  local try_opts = { timeout = 0 }
  if type(opts) == "table" and not check.is_own_object(opts) then
    for field, value in pairs(opts) do
      if field ~= "timeout" then
        try_opts[field] = value
      end
    end
  elseif opts ~= nil then
    try_opts = opts -- no table of options: M.wait raises an error
  end
  return M.wait(self, where, target, try_opts)
end

-- Starts an acquisition for M.start. Returns the core lock and the function on_outcome, which
-- Pending.new describes. Returns nil, message, code if the acquisition cannot start.
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

--- Starts to take a lock, and returns at once: a pending lock (pending.lua); or nil, message, code.
-- See client:lock_async.
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
    -- The count is not incremented here, but by the first call of pending:step. So if the program
    -- drops the pending lock before that call, there is nothing to undo.
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

-- Returns the results of M.with. `results` is the packed list that the caller's function has
-- returned; `unlocked`, `message` and `code` are the results of unlock.
local function join_results(results, unlocked, message, code)
  -- If unlock fails with "unavailable", the lock was held until unlock began, and only etcd's
  -- confirmation of the release is missing. So the whole function ran under the lock.
  if unlocked or code == "unavailable" then
    return true, unpack_list(results, 1, results.n)
  end
  -- The fourth result, true, tells the caller that the function has run. Otherwise the caller might
  -- repeat the call, and the function would do its work twice.
  return nil, message, code, true, unpack_list(results, 1, results.n)
end

local function pack(...)
  return { n = select("#", ...), ... }
end

--- Takes a lock, calls fn(lock), and unlocks when `fn` ends. Raises an error of `fn` again, as the
-- same object. `opts` may be left out. See client:with_lock. The results are one of these lists:
--   true, results of `fn`                      the lock was held until `fn` ended
--   nil, message, code                         the lock was not taken; `fn` has not run
--   nil, message, code, true, results of `fn`  `fn` has run, but the lock was lost or cannot be
--                                              released
function M.with(self, where, target, opts, fn)
  if target.mode == "leader" then -- before `fn`, because a caller may leave out the value
    check.string(where, "value", target.leader_value)
  end
  opts, fn = check.options_and_function(where, opts, fn)
  target.is_in_with = true
  local lock, message, code = M.wait(self, where, target, opts)
  if not lock then
    return nil, message, code
  end
  -- To find out whether `fn` still runs, runtime.is_cut_off looks for call_fn on the stack. It
  -- cannot look for `fn`, which may be a callable table. The local variable `results` prevents a
  -- tail call, which would take call_fn off the stack.
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

--- Adds four methods to `class`. For the name "lock" they are lock, try_lock, with_lock and
-- lock_async; `with_method`, if given, is the name of the third one. `noun` is the word for an
-- object of the class in messages, such as "client". Each method passes its arguments to
-- prepare(...), which returns the client, the target, and the remaining arguments of the form.
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
