--- How a client takes a lock: the checks, the wait, and the four forms of each call.
--
-- Each call makes a lock (lock.lua), which is not held yet. When the core has granted it, the
-- program gets this lock.
local Pending = require "etcdlock.pending"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local identify_owner = require("etcdlock.held_locks").identify_owner
local label = require "etcdlock.label"
local lock_options = require "etcdlock.lock_options"
local names = require "etcdlock.names"
local runtime = require "etcdlock.wait.runtime"
local waits = require "etcdlock.wait.waits"

local M = {}

-- Seconds for which a try waits for etcd's answer. If the wait stops an nginx worker or an event
-- loop, SHORT_TRY_TIMEOUT applies instead of TRY_TIMEOUT. If, in addition, the client has no lease,
-- FIRST_SHORT_TRY_TIMEOUT applies, because the try then needs one more request and perhaps a new
-- connection.
local TRY_TIMEOUT, SHORT_TRY_TIMEOUT, FIRST_SHORT_TRY_TIMEOUT = 2, 0.1, 0.5

-- Seconds after which the event `waiting` reports that a call still waits.
local LOG_WAIT_AFTER = 0.1

-- ---- checks ----

-- Reads the names of a multi-lock. Returns the full names, joined by NUL. Returns nil, message,
-- code if a name is not allowed.
local function read_names(where, lock)
  local given = lock._name
  local full_names, message, code = names.add_prefixes(where, lock._client._prefix, given)
  if not full_names then
    return nil, message, code
  end
  -- A copy, because the caller may change its list.
  lock._names, lock._full_names = { (table.unpack or unpack)(given) }, full_names -- luacheck: ignore
  lock._name = names.join(lock._names)
  return table.concat(full_names, "\0")
end

-- Reads the arguments of a call into `lock`. Returns true; or nil, message, code if one of them is
-- not allowed. Raises for a wrong type.
local function read(where, lock, opts)
  local client, mode = lock._client, lock._mode
  local ok, full_name, message, code
  if mode == "multi" then
    full_name, message, code = read_names(where, lock)
  elseif mode == "lock" and type(lock._name) == "table" then
    check.raise(string.format("%s: name = %s, wanted a string; for several names, use %s", where,
      tostring(lock._name), (where:gsub("lock", "multi_lock"))))
  else
    full_name, message, code = names.add_prefix(where, client._prefix, lock._name)
  end
  if not full_name then
    return nil, message, code
  end
  lock._full_name = full_name
  if opts ~= nil then
    ok, message, code = lock_options.read(where, lock, opts)
    if not ok then
      return nil, message, code
    end
  end
  if mode == "leader" then
    ok, message, code = lock_options.check_value(where, lock._leader_value)
    if not ok then
      return nil, message, code
    end
  end
  local timeout = lock._timeout or client._timeout or lock._default_timeout
  if timeout then
    lock._timeout = timeout ~= math.huge and timeout or nil
  end
  lock._owner = identify_owner(lock._given_owner)
  if client._events.is_on then
    lock._started_at = core.now()
  end
  -- on_lost functions and the log function run only after the options were copied, because they may
  -- change the caller's table `opts`.
  client._loss_listeners:call_due()
  if client._events.is_heard then
    client._events:deliver()
  end
  return true
end

-- Reports to the log and the metrics that `lock` was not acquired. Returns nil, message, code.
local function fail(lock, message, code)
  if lock._started_at then
    lock._client._events:report_not_acquired(lock, message, code)
  end
  return nil, message, code
end

-- Returns the seconds for which a try may wait for etcd.
local function get_try_timeout(lock)
  if not lock._stops_loop then
    return TRY_TIMEOUT
  end
  return lock._client._core:lease() and SHORT_TRY_TIMEOUT or FIRST_SHORT_TRY_TIMEOUT
end

-- Requests the lock from the core. Returns true; or nil, message, code if that is not possible.
local function start(lock)
  local client = lock._client
  local message, code = runtime.leaving()
  if not message and (lock._stops_loop or client._fail_fast) then
    message, code = client:_find_outage()
  end
  if message then
    return fail(lock, string.format("%s: %s", names.describe_lock(lock), message), code)
  end
  local limit = lock._timeout == 0 and get_try_timeout(lock) or lock._timeout
  local core_lock, has_events
  core_lock, has_events, code = client._core:lock(lock._full_name,
    lock._leader_value or label.write(lock), lock._mode, limit, lock)
  if not core_lock then
    return fail(lock, has_events, code) -- has_events is the message
  end
  if lock._started_at then
    client._events:report_started(lock)
  end
  local binding = runtime.bind(lock._core)
  if binding then
    lock._binding = binding
  end
  if has_events then
    client._events:deliver()
  end
  return true
end

-- Returns the holder of the lock for which `lock` waits, a table that label.lua describes. Sends no
-- request: returns nil if this client does not know the holder.
local function find_holder(lock)
  local text, ago = lock._core:take_holder()
  if text then
    lock._holder_label, lock._holder_read_at = text, core.now() - ago
  end
  if lock._client._held_locks:is_holder(lock) then
    return label.describe_self()
  end
  text = lock._holder_label
  return text and label.read_holder(text, core.now() - lock._holder_read_at)
end

-- `lock` is a permit. If the client has seen, during the wait for it, a key of the semaphore with
-- another number of permits: reports that to the log, and returns a text about it for the message
-- of a failure. Otherwise returns an empty text.
local function note_other_permits(lock)
  local text, ago, permits = lock._core:take_other_permits()
  if not text then
    return ""
  end
  local other = label.read_holder(text, ago)
  other.permits = permits
  lock._client._events:report_other_permits(lock, other)
  return "; " .. label.format_permits(lock._permits, other)
end

-- Returns a function report(), which the waiting call runs from time to time. If a report is due,
-- report() logs that the call still waits: first after LOG_WAIT_AFTER, and a second time after the
-- client's `_long_wait`. report() returns the seconds until the next report is due; nil: there are
-- no more reports.
local function make_wait_reporter(lock)
  local client, due = lock._client, LOG_WAIT_AFTER
  return function()
    local waited = core.now() - lock._started_at
    if due == LOG_WAIT_AFTER and waited >= due then
      due = client._long_wait
      client._events:report_waiting(lock)
    end
    if due == client._long_wait and waited >= due then
      due = nil
      client._events:report_still_waiting(lock, find_holder(lock))
    end
    return due and due - waited
  end
end

-- Waits for the outcome of the request, and logs a long wait. Returns true if the lock is held.
-- Returns false, message, code if the request or the wait has failed. An error during the wait
-- cancels the request.
local function await_outcome(lock, loop)
  local client, core_lock, binding = lock._client, lock._core, lock._binding
  local report = lock._started_at and make_wait_reporter(lock)
  while true do
    local limit = report and report() or nil
    local ok, message, code =
      client:_await(waits.Decided, loop, core_lock, limit, binding, lock._timeout ~= 0)
    if ok ~= nil then
      return ok, message, code
    end
  end
end

-- Ends the call. `ok`, `message` and `code` are the outcome in the form in which await_outcome
-- returns it. Returns the lock if `ok` is true. Otherwise cancels the request, which is still
-- pending if only the wait has failed, and returns nil, message, code.
local function finish(lock, ok, message, code)
  local client, binding = lock._client, lock._binding
  local other_permits = lock._permits and note_other_permits(lock) or ""
  if ok then
    if binding then
      runtime.share(client._wakeups, binding)
    end
    if lock._value or lock._holder_label then
      lock._value, lock._holder_label = nil, nil -- from now on only etcd keeps the value
    end
    client._held_locks:add(lock)
    if lock._started_at then
      client._events:report_acquired(lock)
    end
    return lock
  end
  waits.Decided.give_up(client, lock._core, binding)
  if lock._stops_loop and code == "unavailable" then
    client:_suspect_outage()
  elseif code == "timeout" then
    message = message .. label.format_holder(find_holder(lock))
  end
  return fail(lock, message .. other_permits, code)
end

-- Returns the event loop in which the call waits; nil: it blocks. If the request must not start,
-- the second and third result are message, code; else nil. Where a wait would stop an nginx worker
-- or an event loop, only a try may start, and get_try_timeout gives it little time.
local function find_loop(lock)
  local client = lock._client
  local loop, message, code = runtime.loop(client._wakeups.chosen)
  if message and lock._timeout ~= 0 then
    return nil, string.format("%s: %s", names.describe_lock(lock), message), code
  elseif message then
    lock._stops_loop = true
  end
  message, code = client._held_locks:find_refusal(lock, loop)
  return loop, message, code
end

-- ---- the four forms of a call ----
-- Each form takes these arguments: `where`, the name of the call for messages; the lock, which is
-- new; and `opts`, the caller's options.

--- Takes a lock, and waits until it is free. Returns the lock; or nil, message, code. See
-- client:lock. For a with_lock call, does not change the count of a lock that its owner holds.
function M.wait(where, lock, opts)
  local ok, message, code = read(where, lock, opts)
  if not ok then
    return nil, message, code
  end
  local held = lock._client._held_locks:find_reentrant(lock)
  if held then
    if not lock._call then
      -- The last step before the return. So if a debug hook raises an error earlier in this call,
      -- the count is as it was.
      held._count = held._count + 1
    end
    return held
  end
  local loop
  loop, message, code = find_loop(lock)
  if code then
    return fail(lock, message, code)
  end
  ok, message, code = start(lock)
  if not ok then
    return nil, message, code
  end
  if lock._given_owner == nil then
    return finish(lock, await_outcome(lock, loop))
  end
  -- Several coroutines may use this owner. Only one of them may wait for the lock, unless it is a
  -- permit.
  local held_locks = lock._client._held_locks
  held_locks:begin_wait(lock)
  ok, message, code = await_outcome(lock, loop)
  held_locks:end_wait(lock)
  return finish(lock, ok, message, code)
end

--- Takes a lock if it is free. Returns the lock; or nil, message, code. See client:try_lock.
function M.try(where, lock, opts)
  lock._timeout = 0
  return M.wait(where, lock, opts)
end

-- Requests the lock for M.start. Returns the core lock and the function on_outcome, which
-- Pending.new describes. Returns nil, message, code if that is not possible.
local function start_async(lock)
  local ok, message, code = start(lock)
  if not ok then
    return nil, message, code
  end
  local report = lock._started_at and make_wait_reporter(lock)
  return lock._core, function(granted, reason, failure)
    if granted ~= nil then
      return finish(lock, granted, reason, failure)
    elseif report then
      report()
    end
  end
end

--- Starts to take a lock, and returns at once: a pending lock (pending.lua); or nil, message, code.
-- See client:lock_async.
function M.start(where, lock, opts)
  local ok, message, code = read(where, lock, opts)
  if not ok then
    return nil, message, code
  end
  local wakeups, held_locks = lock._client._wakeups, lock._client._held_locks
  local fd
  fd, message, code = wakeups:fd()
  if not fd then
    return fail(lock, message, code)
  end
  if held_locks:find_reentrant(lock) then
    -- The count is not incremented here, but by the first call of pending:step. So if the program
    -- drops the pending lock before that call, there is nothing to undo.
    return Pending.new_reentrant(wakeups, function()
      local held = held_locks:find_reentrant(lock)
      if held then
        held._count = held._count + 1
      end
      return held
    end, function()
      return start_async(lock)
    end)
  end
  message, code = held_locks:find_own_refusal(lock)
  if message then
    return fail(lock, message, code)
  end
  local core_lock, on_outcome
  core_lock, on_outcome, code = start_async(lock)
  if not core_lock then
    return nil, on_outcome, code -- on_outcome is the message
  end
  return Pending.new(wakeups, core_lock, on_outcome)
end

-- ---- with_lock ----

-- A Call is one call that runs a function under a lock, such as with_lock or client:once (comments
-- say "with_lock call" for all of them). It is the `call` of coroutines.call_with_cleanup.
--   lock            false, then a new lock, and after `begin` the one that is held
--   _call           see lock.lua
--   run             the result of runtime.run; nil outside nginx
--   left, was_held  the results of Lock:_leave; `left` is false before, and 0 if the lock was not
--                   taken
local Call = {}
Call.__index = Call

-- As M.wait, for the Call.
function Call:wait(where, lock, opts)
  self.lock = lock
  lock._count, lock._call = 0, self
  return M.wait(where, lock, opts)
end

-- Takes a lock by take(self, a, b, c), which calls Call:wait. Returns the results of `take`.
function Call:begin(take, a, b, c)
  local held, message, code = take(self, a, b, c)
  if not held then
    self.left = 0
    return nil, message, code
  end
  self.lock = held
  return held
end

-- To find out whether the program's function still runs, runtime.is_cut_off looks for `within` on
-- the stack. It cannot look for the program's function, which may be a callable table.
function Call:enter(within)
  local lock, run = self.lock, runtime.run(within)
  if run then
    self.run = run
  end
  if lock._call ~= self then -- the owner held the lock before the call
    self._call = lock._call
    lock._call = self
  end
end

function Call:leave()
  self.left, self.was_held = self.lock:_leave(self)
end

function Call:__close()
  if not self.left and self.lock and self.lock._core then
    self:leave()
    self.lock:_confirm(self.left, self.was_held)
  end
end

-- The arguments are the results of coroutines.call_with_cleanup. Returns the results of M.with.
function Call:finish(has_run, ...)
  if not has_run then
    return nil, ...
  end
  local unlocked, message, code = self.lock:_confirm(self.left, self.was_held)
  -- If the release fails with "unavailable", the lock was held until the release began, and only
  -- etcd's confirmation is missing. So the whole function ran under the lock.
  if unlocked or code == "unavailable" then
    return true, ...
  end
  -- The fourth result, true, tells the caller that the function has run. Otherwise the caller might
  -- repeat the call, and the function would do its work twice.
  return nil, message, code, true, ...
end

function Call:report(traceback, err)
  self.lock._client._events:report_raised(self.lock, traceback, err)
end

--- Takes a lock by take(call, a, b, c), which calls call:wait(where, lock, opts) and returns its
-- results. Calls fn(lock), and unlocks when `fn` ends. Raises an error of `fn` again, as the same
-- object. The results are one of these lists:
--   true, results of `fn`                      the lock was held until `fn` ended
--   nil, message, code                         the lock was not taken; `fn` has not run
--   nil, message, code, true, results of `fn`  `fn` has run, but the lock was lost, was unlocked
--                                              by `fn`, or cannot be released
function M.run(fn, take, a, b, c)
  local call = setmetatable({ lock = false, _call = nil, left = false, was_held = false }, Call)
  return call:finish(coroutines.call_with_cleanup(call, fn, take, a, b, c))
end

--- Takes a lock for a call of `fn`. `opts` may be left out. See client:with_lock. The results are
-- those of M.run.
function M.with(where, lock, opts, fn)
  if lock._mode == "leader" then -- before `fn`, because a caller may leave out the value
    check.string(where, "value", lock._leader_value)
  end
  if opts == nil and fn == nil and lock._mode ~= "multi" then
    check.string(where, "name", lock._name) -- raises if the caller has left out the name
  end
  opts, fn = check.options_and_function(where, opts, fn)
  return M.run(fn, Call.wait, where, lock, opts)
end

--- Adds four methods to `class`. For the name "lock" they are lock, try_lock, with_lock and
-- lock_async; `with_method`, if given, is the name of the third one. `noun` is the word for an
-- object of the class in messages, such as "client". Each method passes its arguments to
-- prepare(...), which returns the new lock and the remaining arguments of the form.
function M.add(class, noun, name, prepare, with_method)
  local function add_form(method, form)
    local where = noun .. ":" .. method
    class[method] = function(...)
      return form(where, prepare(...))
    end
  end
  add_form(name, M.wait)
  add_form("try_" .. name, M.try)
  add_form(with_method or "with_" .. name, M.with)
  add_form(name .. "_async", M.start)
end

return M
