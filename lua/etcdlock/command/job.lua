--- A command that runs while a lock is held: waits for the lock, runs the command, lets go.
-- All of it in one luv loop, in which the waits yield, so that signals are heard meanwhile.
local uv = require "luv"
local Child = require "etcdlock.command.child"
local core = require "etcdlock.core"
local exit = require "etcdlock.command.exit"
local lock_options = require "etcdlock.lock_options"
local program = require "etcdlock.command.program"
local numbers = require "etcdlock.numbers"
local quote = require("etcdlock.characters").quote
local settings = require "etcdlock.command.settings"
local signals = require "etcdlock.command.signals"
local texts = require "etcdlock.command.texts"

local Job = {}
Job.__index = Job

-- ---- signals ----

-- Stops the command and this process, as Ctrl-Z does. SIGCONT continues both. If the kernel does
-- not stop this process, as no shell could continue it, the command must not stay stopped either.
local function stop(self)
  if self._child then
    self._child:pass "sigtstp"
  end
  local was_stopped = core.stop(false)
  if self._child and not was_stopped then
    self._child:continue_after_stop()
  end
end

local function on_signal(self, name)
  if name == "sigpipe" then
    return -- nobody reads what we say: that is no reason to leave the command alone
  elseif name == "sigchld" then
    Child.reap(self._child)
  elseif name == "sigtstp" then
    stop(self)
  elseif name == "sigcont" then
    if self._child then
      self._child:continue()
    end
  elseif self._child then
    self._child:pass(name)
    if signals.FOR_GROUP[name] then
      self._is_asked_to_end = true
      self._child:limit_rest(self._args.grace)
    end
  elseif self._end_keeping and signals.ENDS_WAIT[name] then
    self._end_keeping()
  elseif signals.ENDS_WAIT[name] and not self._is_done then
    self._ended_by = self._ended_by or exit.SIGNAL + signals.number(name)
    self._client:close() -- by which nobody is left in the queue
  end
end

local HEARD = { "sigpipe", "sigtstp", "sigcont", "sigchld" }
for _, name in ipairs(signals.PASSED) do
  HEARD[#HEARD + 1] = name
end

-- ---- the lock ----

--- The exit status for a failed call of the module, which is told.
local function fail(self, message, code)
  local status = settings.fail(message, code)
  return status == exit.TIMEOUT and self._args.timeout_status or status
end

-- A wait is told of when it has lasted so long.
local QUIET = 1000 -- ms

--- Does who is at `place` stand in the way of what `args` ask for? Permits are counted by
-- themselves.
local function is_in_the_way(args, place)
  if args.permits then
    return place.mode == "permit"
  end
  return place.mode ~= "permit" and not (args.shared and place.mode == "read")
end

--- Who stands in the way, in words.
local function holder_of(args, places)
  local place = {}
  for i = #places, 1, -1 do
    place = is_in_the_way(args, places[i]) and places[i] or place
  end
  if not place.host then
    return "somebody holds it"
  end
  return ("%s, pid %.0f, who has asked for it at %s"):format(place.host, place.pid,
    os.date("%Y-%m-%d %H:%M:%S", place.since))
end

--- Whoever sits at a terminal is told for whom he waits. Returns what ends that.
local function tell_wait(self)
  local timer = uv.new_timer()
  timer:start(QUIET, 0, function()
    coroutine.wrap(function()
      local places = self._client:queue(self._args.name)
      if places and not timer:is_closing() then
        texts.say_aside("waiting for %s: %s", quote(self._args.name), holder_of(self._args, places))
      end
    end)()
  end)
  timer:unref()
  return function()
    timer:close()
  end
end

--- What has come before this is heard before it returns: luv tells of signals after all else.
local function hear_signals()
  local thread, timer = coroutine.running(), uv.new_timer()
  timer:start(0, 0, function()
    timer:close()
    assert(coroutine.resume(thread))
  end)
  coroutine.yield()
end

--- Waits for the lock, and has etcd confirm that it is held.
-- @return lock, revision | nil, exit status
local function acquire(self, take)
  local stop_telling = uv.guess_handle(2) == "tty" and tell_wait(self)
  local lock, message, code = take(self._client)
  if stop_telling then
    stop_telling()
  end
  local held, left, revision
  if lock then
    held, left, revision = lock:check()
    self._granted_at = core.now()
    hear_signals() -- those that came while we waited are not for the command
  end
  if self._ended_by then
    return nil, self._ended_by
  elseif not lock then
    return nil, fail(self, message, code)
  elseif not held then
    lock:unlock()
    return nil, fail(self, left, revision)
  end
  return lock, revision
end

-- How old the hold deadline that `watch` knows may be, in seconds.
local DEADLINE_AGE = 1

-- Ends the command with TERM, and with KILL after `grace` seconds, and says why.
local function end_command(self, why, grace)
  if not self._is_ended then
    self._is_ended = true
    self._child:terminate(grace)
    texts.say_aside("%s; %s is ended", why, self._args.command[1])
  end
end

--- Has the command end when the lock is lost.
-- KILL comes --grace seconds after the hold deadline, also if this process stood still at the
-- deadline: the lock delay counts from there, too.
local function watch(self)
  coroutine.wrap(function()
    local deadline
    repeat
      deadline = core.now() + self._lock:remaining()
    until self._lock:wait_lost(DEADLINE_AGE) or self._is_done
    if self._end_keeping then
      self._end_keeping()
    elseif self._child then
      local late = math.max(0, core.now() - deadline)
      local _, message = self._lock:check()
      end_command(self, message, math.max(0, self._args.grace - late))
    end
  end)()
end

-- Starts the timer of --max-hold. The lock is kept until the command has ended.
local function limit_hold(self)
  if not self._args.max_hold then
    return
  end
  self._limit = uv.new_timer()
  self._limit:start(math.ceil(self._args.max_hold * 1000), 0, function()
    if self._child:has_ended() then
      return -- --grace limits the other processes of its group
    end
    end_command(self, ("lock %s: --max-hold is over after %s s"):format(quote(self._args.name),
      numbers.format("%g", self._args.max_hold)), self._args.grace)
  end)
end

--- Runs the command to its end: its exit status | nil, exit status, where it couldn't be
-- started, which is told.
local function run_command(self, revision)
  local thread = coroutine.running()
  local message, status
  self._child, message, status = Child.start(self._args.command, {
    ETCD_LOCK_KEY = self._lock:key(),
    ETCD_LOCK_REV = ("%.0f"):format(revision),
    ETCDLOCK_TOKEN = ("%.0f"):format(self._lock:token()),
  }, self._hearing.blocked, function(what, number)
    self._child = nil
    if self._limit then
      self._limit:close()
    end
    assert(coroutine.resume(thread, what == "signal" and exit.SIGNAL + number or number))
  end, function()
    return (self._lock:held()) -- if it was lost meanwhile, it is ended first
  end)
  if not self._child then
    texts.say("%s", message)
    return nil, status or exit.NOT_EXECUTABLE
  end
  watch(self)
  limit_hold(self)
  return coroutine.yield()
end

-- Keeps the lock until --at-least is over, it is lost, or a signal asks for the end. Returns true
-- if it was held at the end of the command.
local function keep(self)
  local left = self._granted_at + (self._args.at_least or 0) - core.now()
  if left <= 0 or self._is_ended or self._is_asked_to_end or not self._lock:held() then
    return false
  end
  local thread, timer = coroutine.running(), uv.new_timer()
  function self._end_keeping()
    self._end_keeping = nil
    timer:close()
    assert(coroutine.resume(thread))
  end
  timer:start(math.ceil(left * 1000), 0, self._end_keeping)
  coroutine.yield()
  return true
end

--- Lets go of the lock: the exit status of a command that has ended with `status`, while the lock
-- was held if `was_held`.
local function release(self, status, was_held)
  local released, message, code = self._lock:unlock()
  if code == "unavailable" then
    texts.say("lock %s: etcd has not confirmed the release; it is free after its TTL and lock"
      .. " delay, at the latest", quote(self._args.name))
  elseif not released and not self._is_ended then
    texts.say("%s", message)
  end
  return (self._is_ended or code == "lost" and not was_held) and exit.LOST or status
end

-- Sets --lock-delay to its default, --grace: KILL comes before the next holder.
local function choose_lock_delay(args)
  args.lock_delay = args.lock_delay or args.grace
  if args.lock_delay > lock_options.LOCK_DELAY_MAX then
    args.refuse(("--grace: %s s is longer than the longest lock delay, %d s; give --lock-delay,"
      .. " too"):format(numbers.format("%g", args.grace), lock_options.LOCK_DELAY_MAX))
  end
end

local function run(self, take)
  local revision
  self._lock, revision = acquire(self, take)
  if not self._lock then
    return revision
  end
  local status, failed = run_command(self, revision)
  local was_held = status and keep(self)
  self._is_done = true
  return release(self, status or failed, was_held)
end

-- ---- the whole ----

--- Runs args.command under the lock that take(client) takes: lock | nil, message, code.
-- @return the exit status: that of the command, if it has run and the lock was kept
return function(args, take)
  if not args.command or not args.command[1] then
    return args.refuse("what is to run is missing: it stands behind --, as in '-- bash' for a shell"
      .. " that has the lock, or '-- sleep infinity' to keep the lock until Ctrl-C")
  end
  choose_lock_delay(args)
  local path, message, status = program.find(args.command[1])
  if not path then
    texts.say("%s", message)
    return status
  end
  local client
  client, status = settings.connect(args, "luv")
  if not client then
    return status
  end
  local self = setmetatable({ _args = args, _client = client }, Job)
  self._hearing = signals.hear(HEARD, function(name)
    on_signal(self, name)
  end)
  status = nil
  coroutine.wrap(function()
    status = run(self, take)
    uv.stop()
  end)()
  if not status then
    uv.run()
  end
  client:close()
  self._hearing.forget()
  return assert(status, "the loop has ended before the command")
end
