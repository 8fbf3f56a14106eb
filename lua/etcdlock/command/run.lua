--- etcdlock run: waits for a lock, runs a command while the lock is held, and releases the lock.
-- `etcdlock elect` uses this module, too. A run is a coroutine in a luv loop. When the coroutine
-- waits, it yields to the loop, so that the loop can handle signals meanwhile.
local uv = require "luv"
local Child = require "etcdlock.command.child"
local core = require "etcdlock.core"
local label = require "etcdlock.label"
local names = require "etcdlock.names"
local once = require "etcdlock.once"
local Outages = require "etcdlock.outages"
local report = require "etcdlock.command.report"
local settings = require "etcdlock.command.settings"
local signals = require "etcdlock.command.signals"
local format_number = require("etcdlock.text").format_number

local LOCK_DELAY_MAX = require("etcdlock.connect_options").LOCK_DELAY_MAX
local EXIT = report.EXIT

local M = {}

-- Fields of a run:
--   _args           the result of parser.parse
--   _subject        beginning of messages, see names.describe
--   _client         the client
--   _take           the parameter `take` of M.run_with
--   _job            the run of --once-per (once.lua); nil: that option is not given
--   _is_waiting     true until `acquire` has the lock and may start the command, or has failed
--   _handling       the result of signals.handle
--   _lock           the lock; nil: not acquired yet
--   _granted_at     when the lock was granted (core.now, seconds), for --at-least
--   _child          the child (child.lua); nil: it has not started yet, or has ended
--   _limit          luv timer of --max-hold; nil: not given, or the child was not started
--   _signal_status  exit status if a signal has ended the wait for the lock; otherwise nil
--   _is_loss_told   true after `record` has printed that the lock was lost
--   _is_terminated  true after this process has sent TERM because of a loss or --max-hold
--   _is_end_wanted  true after TERM, INT or QUIT was forwarded to the child
--   _stop_keeping   function that ends the wait of --at-least; nil if `keep` does not wait
--   _is_done        true from the time directly before the release of the lock; ends `watch`
local Run = {}
Run.__index = Run

-- ---- signals ----

-- Handles SIGTSTP (Ctrl-Z): stops the child's group, and then this process. SIGCONT continues both.
-- If no shell could continue this process, because its process group is orphaned, the kernel does
-- not stop this process. Then the child must continue; otherwise it would stay stopped for ever.
local function stop(self)
  if self._child then
    self._child:forward "sigtstp"
  end
  local was_stopped = core.stop(false)
  if self._child and not was_stopped then
    self._child:continue_after_stop()
  end
end

local function on_signal(self, name)
  if name == "sigpipe" then
    return -- a closed standard error is no reason to abandon the child
  elseif name == "sigchld" then
    Child.reap(self._child)
  elseif name == "sigtstp" then
    stop(self)
  elseif name == "sigcont" then
    if self._child then
      self._child:continue()
    end
  elseif self._child then
    self._child:forward(name)
    if signals.FOR_GROUP[name] then
      self._is_end_wanted = true
      self._child:limit_group(self._args.grace)
    end
  elseif self._stop_keeping and signals.ENDS_WAIT[name] then
    self._stop_keeping()
  elseif signals.ENDS_WAIT[name] and self._is_waiting then
    self._signal_status = self._signal_status or EXIT.SIGNAL + signals.number_of(name)
    self._client:close() -- ends the wait, and removes the entry from the queue
  end
end

local HANDLED = { "sigpipe", "sigtstp", "sigcont", "sigchld" }
for _, name in ipairs(signals.FORWARDED) do
  HANDLED[#HANDLED + 1] = name
end

-- ---- the lock ----

-- Prints why the lock was not acquired, and returns the exit status. `message` and `code` are those
-- of the failed call. If the lock was not free, or if --once-per leaves nothing to do, the exit
-- status is the value of -E, and with --quiet or `-E 0` nothing is printed.
local function fail(self, message, code)
  local status = report.status_of(code)
  local is_error = status ~= EXIT.TIMEOUT
  if is_error or not (self._args.quiet or self._args.timeout_status == EXIT.OK) then
    settings.fail(message, code)
  end
  return is_error and status or self._args.timeout_status
end

-- Milliseconds for which a wait for the lock prints nothing, and between two later looks in
-- announce_wait.
local QUIET = 1000

-- Tells whether `entry`, an entry of client:queue, conflicts with the lock that `args` describe.
local function is_conflict(args, entry)
  local mode = args.permits and "permit" or args.shared and "read" or "lock"
  return core.modes_conflict(entry.mode, mode)
end

-- Returns a text, "held by ..." or "queued behind ...", about the first entry in `queue` that
-- conflicts with the lock that `args` describe: a holder of the lock or an earlier waiter.
local function describe_holder(args, queue)
  local entry = {}
  for i = #queue, 1, -1 do
    entry = is_conflict(args, queue[i]) and queue[i] or entry
  end
  local relation = entry.held == false and "queued behind" or "held by"
  if not entry.host then
    return relation .. " another client"
  end
  return relation .. " " .. label.describe_process(entry)
end

-- Prints which process holds the lock, unless the wait ends before, or the queue cannot be read.
local function announce_holder(self, timer)
  coroutine.wrap(function()
    local queue = self._client:queue(self._args.name)
    if queue and not timer:is_closing() then
      report.print_message_async("%s: %s; waiting", self._subject,
        describe_holder(self._args, queue))
    end
  end)()
end

-- After 1 s, and then every second, prints what has happened during the wait (print_event), and why
-- etcd is unreachable, once for each cause. At a terminal, also prints which process holds the
-- lock, as soon as etcd is reachable. Returns a function that ends this.
local function announce_wait(self)
  local timer, printed = uv.new_timer(), {}
  local is_holder_due = uv.guess_handle(2) == "tty"
  timer:start(QUIET, QUIET, function()
    self._client._events:deliver()
    local outage = self._client:_find_outage()
    local cause = outage and Outages.key_of(outage)
    if outage and not printed[cause] then
      printed[cause] = true
      report.print_message_async("%s: %s; waiting", self._subject, settings.translate(outage))
    elseif not outage and is_holder_due then
      is_holder_due = false
      announce_holder(self, timer)
    end
  end)
  timer:unref()
  return function()
    timer:close()
  end
end

-- Waits until every signal that has arrived has been handled. libuv calls an idle handle once per
-- iteration of its loop, before it asks the kernel for what is ready. So between two calls it has
-- called the handlers of the signals.
local function handle_pending_signals()
  local thread, idle = coroutine.running(), uv.new_idle()
  idle:start(function()
    assert(coroutine.resume(thread))
  end)
  coroutine.yield()
  coroutine.yield()
  idle:close()
end

-- Tells whether the command may start: with --once-per, etcd says whether the run is due, and the
-- lock must still be held. Signals that came during the wait are handled before, because they are
-- not for the command.
-- @return true; or nil, message, code
local function may_start(self, lock)
  self._granted_at = core.now()
  if self._job then
    local is_due, message, code = self._job:check(lock)
    if is_due == false then
      return nil, message, "locked"
    elseif not is_due then
      return nil, message, code ~= "invalid" and code or nil -- the command line is not wrong
    end
  end
  handle_pending_signals()
  if not lock:held() then
    return lock:check() -- tells why
  end
  return true
end

-- Waits for the lock, and finds out whether the command may start. If not, calls `fail`, unless a
-- signal has ended the wait.
-- @return lock; or nil, exit status
local function acquire(self)
  local stop_announcing = not self._args.quiet and announce_wait(self)
  local lock, message, code = self._take(self._client, self._job)
  if stop_announcing then
    stop_announcing()
  end
  local is_ok
  if lock then
    is_ok, message, code = may_start(self, lock)
  end
  self._is_waiting = false
  if self._signal_status then
    return nil, self._signal_status
  elseif not is_ok then
    local status = fail(self, message, code)
    if lock then
      lock:unlock()
    end
    return nil, status
  end
  return lock
end

-- Sends TERM to the child's group now, and KILL after `grace` seconds. Prints the cause `why`. Does
-- nothing if it was called before.
local function terminate(self, why, grace)
  if not self._is_terminated then
    self._is_terminated = true
    self._child:terminate(grace)
    report.print_message_async("%s; sent TERM to %s", why, self._args.command[1])
  end
end

-- Seconds between two reads of the hold deadline in `watch`.
local DEADLINE_AGE = 1

-- Ends the child, or the wait of --at-least, when the lock is lost. KILL follows --grace seconds
-- after TERM. If TERM is late, for example because this process was stopped at the hold deadline,
-- KILL follows --grace seconds after that deadline. The reason: the next holder may start when the
-- TTL and then the lock delay have passed. The TTL ends at least 0.2 s after the hold deadline.
local function watch(self)
  coroutine.wrap(function()
    local deadline
    repeat
      deadline = core.now() + self._lock:remaining()
    until self._lock:wait_lost(DEADLINE_AGE) or self._is_done
    if self._stop_keeping then
      self._stop_keeping()
    elseif self._child then
      local late = math.max(0, core.now() - deadline)
      local _, message = self._lock:check()
      terminate(self, settings.translate(message), math.max(0, self._args.grace - late))
    end
  end)()
end

-- Starts the timer of --max-hold, if this option is given. When the timer ends, the child's group
-- gets TERM, and KILL after --grace. The lock is kept until the group has ended.
local function limit_hold(self)
  if not self._args.max_hold then
    return
  end
  self._limit = uv.new_timer()
  self._limit:start(math.ceil(self._args.max_hold * 1000), 0, function()
    if self._child:has_ended() then
      return -- limit_group ends the other processes of the group
    end
    terminate(self, ("%s: --max-hold of %s s is over"):format(self._subject,
      format_number("%g", self._args.max_hold)), self._args.grace)
  end)
end

-- Starts the child and waits until it has ended. If the child cannot be started, prints the reason.
-- @return the exit status of the child. If the child could not be started: nil, and the exit status
--   of etcdlock
local function run_child(self)
  local thread = coroutine.running()
  local message, status
  self._child, message, status = Child.start(self._args.command, {
    ETCD_LOCK_KEY = self._lock:key(),
    ETCD_LOCK_REV = ("%.0f"):format(self._lock:_held_rev()),
    ETCDLOCK_TOKEN = ("%.0f"):format(self._lock:token()),
  }, self._handling.blocked, function(what, number)
    if self._child:has_left_group() then
      report.print_message_async("%s: %s was killed; processes that it has started go on without"
        .. " the lock", self._subject, self._args.command[1])
    end
    self._child = nil
    if self._limit then
      self._limit:close()
    end
    assert(coroutine.resume(thread, what == "signal" and EXIT.SIGNAL + number or number))
  end, function()
    return (self._lock:held()) -- if the lock is lost, `watch` ends the child
  end)
  if not self._child then
    report.print_message("%s", message)
    return nil, status or EXIT.NOT_EXECUTABLE
  end
  watch(self)
  limit_hold(self)
  return coroutine.yield()
end

-- With --once-per, records the run if it was successful: the exit status of the child, `status`, is
-- 0, and `terminate` was not called. A run that is not recorded may be repeated in the same period.
-- Returns `status` and whether the run is recorded; or, if the run could not be recorded, another
-- exit status.
local function record(self, status)
  if not self._job or status ~= EXIT.OK or self._is_terminated then
    return status
  end
  local is_recorded, message, code = self._job:record(self._lock)
  if is_recorded then
    return status, true
  end
  self._is_loss_told = code == "lost"
  return settings.fail(message, code)
end

-- Keeps the lock until --at-least is over, the lock is lost, or a signal ends the wait. Then
-- returns true: the lock was still held when the child had ended. Returns false without a wait if
-- --at-least is over already, if the lock is lost, or if the child was told to end.
local function keep(self)
  local left = self._granted_at + (self._args.at_least or 0) - core.now()
  if left <= 0 or self._is_terminated or self._is_end_wanted or not self._lock:held() then
    return false
  end
  local thread, timer = coroutine.running(), uv.new_timer()
  function self._stop_keeping()
    self._stop_keeping = nil
    timer:close()
    assert(coroutine.resume(thread))
  end
  timer:start(math.ceil(left * 1000), 0, self._stop_keeping)
  coroutine.yield()
  return true
end

-- Releases the lock. `status` is the exit status so far. `was_held` is true if the lock is known to
-- have been held when the child had ended, `is_recorded` if the run of the child is recorded.
-- Returns LOST if etcdlock has sent TERM because of a loss or --max-hold, or if the lock is found
-- lost at the release and `was_held` is not true. Otherwise returns `status`.
local function release(self, status, was_held, is_recorded)
  local released, message, code = self._lock:unlock()
  local note -- what is no error
  if code == "unavailable" then
    note = self._subject .. ": etcd has not confirmed the release; the lock is free after its TTL"
      .. " and lock delay at the latest"
  elseif code == "lost" and is_recorded then
    note = message .. ", after the command had ended; its run is recorded"
  elseif not (released or self._is_terminated or self._is_loss_told) then
    settings.fail(message, code)
  end
  if note and not self._args.quiet then
    report.print_message("%s", note)
  end
  return (self._is_terminated or code == "lost" and not was_held) and EXIT.LOST or status
end

-- ---- the whole run ----

-- Sets --lock-delay to its default, --grace, so that after a loss the next holder starts only after
-- KILL. Refuses a --grace that is too long for a lock delay.
local function choose_lock_delay(args)
  args.lock_delay = args.lock_delay or args.grace
  if args.lock_delay > LOCK_DELAY_MAX then
    args.refuse(("--grace: %s s is longer than the longest lock delay, %d s; give --lock-delay,"
      .. " too"):format(format_number("%g", args.grace), LOCK_DELAY_MAX))
  end
end

-- Carries out the whole run. Returns the exit status.
local function run(self)
  local status, failed, is_recorded
  self._lock, status = acquire(self)
  if not self._lock then
    return status
  end
  status, failed = run_child(self)
  if status then
    status, is_recorded = record(self, status) -- only a holder can record it
  end
  local was_held = status and keep(self) or is_recorded
  self._is_done = true
  return release(self, status or failed, was_held, is_recorded)
end

-- Returns the arguments of the subcommand, quoted for a shell if necessary, each after a blank.
local function format_arguments(args)
  local words = {}
  for i, word in ipairs { args.name, args.subcommand == "elect" and args.value or nil } do
    local is_plain = word:find "^[%w_./:@%%+=,-]+$"
    words[i] = " " .. (is_plain and word or report.quote_for_shell(word))
  end
  return table.concat(words)
end

-- The events that etcdlock prints: another number of permits, and the end of the lease during the
-- wait.
local PRINTED = { permits_differ = true, requeued = true }

-- The option `log` of the client.
local function print_event(event)
  if PRINTED[event.event] then
    report.print_message_async("%s", (tostring(event):gsub("^etcdlock: ", "")))
  end
end

--- Acquires a lock by take(client, job), and runs args.command while this lock is held. `job` is
-- the run of --once-per, or nil. take returns the lock; or nil, message, code. M.run_with returns
-- the exit status of etcdlock: that of args.command, or one that describes a failure.
function M.run_with(args, take)
  if not args.command or not args.command[1] then
    local text = "the command to run is missing; write: etcdlock %s%s -- cmd; cmd may be bash"
      .. " (a shell that has the lock) or 'sleep infinity' (to keep it until Ctrl-C)"
    return args.refuse(text:format(args.subcommand, format_arguments(args)))
  end
  choose_lock_delay(args)
  local path, message, status = Child.find_program(args.command[1])
  if not path then
    report.print_message("%s", message)
    return status
  end
  local client
  client, status = settings.connect(args, "luv",
    not args.quiet and print_event or nil)
  if not client then
    return status
  end
  local self = setmetatable({
    _args = args, _client = client,
    _subject = names.describe(args.permits and "permit", (args.prefix or "") .. args.name),
    _job = args.once_per and once.start(client, args.name, args.once_per), _take = take,
    _is_waiting = true,
  }, Run)
  self._handling = signals.handle(HANDLED, function(name)
    on_signal(self, name)
  end)
  status = nil
  coroutine.wrap(function()
    status = run(self)
    uv.stop()
  end)()
  if not status then
    uv.run()
  end
  client:close()
  self._handling.stop()
  return assert(status, "the loop has ended before the command")
end

-- Takes the lock that `args` describe. Returns the lock; or nil, message, code.
local function take(client, args, job)
  local opts = { timeout = args.timeout, value = args.value }
  if job then
    return job:take(opts)
  elseif args.shared then
    return client:read_lock(args.name, opts)
  elseif not args.permits then
    return client:lock(args.name, opts)
  end
  local semaphore, message, code = client:semaphore(args.name, args.permits)
  if not semaphore then
    return nil, message, code
  end
  return semaphore:lock(opts)
end

--- Runs `etcdlock run`. Returns the exit status.
function M.run(args)
  return M.run_with(args, function(client, job)
    return take(client, args, job)
  end)
end

return M
