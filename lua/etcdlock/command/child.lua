--- The child: the process that runs the command CMD under a lock, in a process group of its own.
-- This module finds the program of the child, starts the child and forwards signals to it. It also
-- stops, continues and ends the child's process group.
local uv = require "luv"
local EXIT = require("etcdlock.command.report").EXIT
local core = require "etcdlock.core"
local signals = require "etcdlock.command.signals"

local Child = {}
Child.__index = Child

-- Milliseconds between two checks whether the group still contains a process.
local POLL = 20

-- Milliseconds to wait after KILL until the killed processes have disappeared. The kernel may need
-- seconds to free their memory. The wait has a limit because a killed process that its parent does
-- not reap stays a zombie for ever.
local KILLED_MAX = 5000

-- ---- the program ----

-- Search path if PATH is not set: the same as that of execvp.
local DEFAULT_PATH = "/bin:/usr/bin"

-- Returns whether `path` is an executable file, and the result of uv.fs_stat. Returns nil if `path`
-- does not exist.
local function is_program(path)
  local stat = uv.fs_stat(path)
  return stat and stat.type ~= "directory" and uv.fs_access(path, "X"), stat
end

--- Finds the program `name` as a shell does: in the directories of PATH, unless `name` contains a
-- slash. run.lua calls this function before it waits for the lock, so that a misspelt name is
-- reported at once.
-- @return path; or nil, message, exit status
function Child.find_program(name)
  local path, found = nil, nil
  if name:find "/" then
    path, found = is_program(name)
    path = path and name
  else
    for directory in ((os.getenv "PATH" or DEFAULT_PATH) .. ":"):gmatch "([^:]*):" do
      local candidate = (directory == "" and "." or directory) .. "/" .. name
      local is_executable, stat = is_program(candidate)
      found = found or stat
      path = path or is_executable and candidate
    end
  end
  if path then
    return path
  elseif found then
    return nil, name .. ": not an executable file", EXIT.NOT_EXECUTABLE
  end
  return nil, name .. ": command not found", EXIT.NOT_FOUND
end

-- ---- start ----

-- Returns a list of NAME=value: the environment of this process, and the variables in the table
-- `extra`, which replace variables of the same name.
local function environment_with(extra)
  local all, list = uv.os_environ(), {}
  for name, value in pairs(extra) do
    all[name] = value
  end
  for name, value in pairs(all) do
    list[#list + 1] = name .. "=" .. value
  end
  return list
end

-- Tells whether an interactive shell has started this process alone, in the foreground. Only then
-- does the child start in the foreground of the terminal. In a pipeline or a script, other
-- processes of this process's group need the terminal and must get its Ctrl-C.
local function is_alone_in_foreground()
  local group = core.group()
  return core.pid() == group and core.terminal_group() == group
    and uv.guess_handle(0) == "tty" and uv.guess_handle(1) == "tty"
end

--- Starts the child. The child inherits the environment and the open files of this process.
--   argv            list: the program of the child and the arguments
--   extra           name -> value: variables that are added to the environment
--   blocked         list of the numbers of the signals that are blocked in the child
--   on_exit         on_exit("exit", status) or on_exit("signal", number) is called when the child
--                   has ended. If terminate or limit_group was called before, on_exit is called
--                   when the whole group has ended, or need not be waited for any longer
--   may_continue    may_continue() returns whether the child may continue after a stop
-- @return child; or nil, message, exit status. The exit status is nil if the program was found, but
--   could not be started
function Child.start(argv, extra, blocked, on_exit, may_continue)
  -- Finds the program again: it may have been deleted during a long wait for the lock.
  local path, message, status = Child.find_program(argv[1])
  if not path then
    return nil, message, status
  end
  local ignored = {}
  for name in pairs(signals.read_ignored()) do
    ignored[#ignored + 1] = signals.number_of(name)
  end
  local has_terminal = is_alone_in_foreground()
  local pid
  pid, message = core.start_child(argv, environment_with(extra), ignored, blocked, has_terminal)
  if not pid then
    return nil, ("%s: cannot be executed: %s"):format(argv[1], message)
  end
  return setmetatable({
    -- Process ID of the child, and also the ID of the child's process group.
    _pid = pid,
    -- True if the group has ever been given the foreground of the terminal. Only then does
    -- `continue` give the foreground to the group again.
    _has_terminal = has_terminal,
    _on_exit = on_exit,
    _may_continue = may_continue,
    -- The other fields are nil at first:
    -- _must_continue: true if `continue` must be called when TSTP has stopped the child.
    --   continue_after_stop sets the field, `continue` sets it to false.
    -- _has_ended: true after the child itself has ended.
    -- _what, _number: how the child has ended, in the form of the parameters of on_exit.
    -- _rest_grace: limit_group sets it: seconds from the end of the child until the other processes
    --   of its group get KILL. nil: they get KILL only after `terminate`.
    -- _kill_timer: luv timer that sends KILL to the group. _kill_after creates it.
    -- _killed_at: when that timer sent KILL (uv.now, milliseconds); nil: KILL was not sent.
    -- _poll_timer: luv timer that calls _finish_if_done every POLL milliseconds. It is created when
    --   the child has ended, and closed before on_exit is called.
  }, Child)
end

function Child:_signal_group(name)
  uv.kill(-self._pid, name)
end

--- Forwards the signal `name`: to the child's group if signals.FOR_GROUP contains `name`, otherwise
-- to the child alone.
function Child:forward(name)
  if signals.FOR_GROUP[name] then
    self:_signal_group(name)
  elseif not self._has_ended then
    uv.kill(self._pid, name)
  end
end

-- ---- stop and continue ----

--- Continues the stopped group, unless may_continue() returns false. First gives the foreground of
-- the terminal to the child's group, if the group of this process has it now, and the child's group
-- has had it before or was stopped because it wants the terminal.
function Child:continue()
  self._must_continue = false
  if not self._may_continue() then
    return
  elseif self._has_terminal and core.terminal_group() == core.group() then
    core.set_terminal_group(self._pid)
  end
  self:_signal_group "sigcont"
end

--- Makes the group continue as soon as TSTP has stopped the child. run.lua calls this function if
-- TSTP was forwarded to the group, but etcdlock itself could not stop. Otherwise the child would
-- stay stopped, because no shell continues it. CONT is not sent at once, because CONT would cancel
-- a TSTP that is still pending.
function Child:continue_after_stop()
  self._must_continue = true
end

local TSTP = signals.number_of "sigtstp"
-- Signals that the kernel sends to a process group in the background that uses the terminal: a set
-- of numbers.
local WANTS_TERMINAL = {
  [signals.number_of "sigttin"] = true, [signals.number_of "sigttou"] = true,
}

-- Handles the fact that the signal `number` has stopped the child.
function Child:_on_stop(number)
  local foreground = core.terminal_group()
  if self._must_continue and number == TSTP then
    self:continue()
  elseif WANTS_TERMINAL[number] and foreground == core.group() then
    self._has_terminal = true
    self:continue()
  elseif foreground == self._pid then
    -- Put this process's group into the foreground before this process stops. If another etcdlock
    -- has started this process, the other one stops, too, but only if it finds the group of its
    -- child in the foreground.
    core.set_terminal_group(core.group())
    core.stop(true)
    -- Either a shell has continued this process after its stop, or the kernel has not stopped this
    -- process, because no shell could continue it. In both cases the child must continue.
    self:continue()
  elseif WANTS_TERMINAL[number] and core.stop(true) then
    self:continue()
  end
end

-- ---- the end ----

-- Sends KILL to the group after `grace` seconds. Does nothing if KILL was sent already, or if an
-- earlier call lets the timer send KILL sooner.
function Child:_kill_after(grace)
  local ms = math.ceil(grace * 1000)
  if not self._kill_timer then
    self._kill_timer = uv.new_timer()
  elseif self._killed_at or self._kill_timer:get_due_in() <= ms then
    return
  end
  self._kill_timer:start(ms, 0, function()
    self._killed_at = uv.now()
    self:_signal_group "sigkill"
  end)
end

-- Returns true if on_exit must not be called yet, because the group still contains a process. The
-- child itself has ended before. After KILL, returns true for at most KILLED_MAX, and only while
-- the group contains a process that this process may signal: KILL does not end the processes of
-- another user. Before KILL, returns true if terminate or limit_group was called, because then KILL
-- is going to end the group. After limit_group, the first call starts the timer of KILL.
function Child:_must_wait_for_group()
  local _, _, failure = uv.kill(-self._pid, 0)
  if failure == "ESRCH" then
    return false
  elseif self._killed_at then
    return not failure and uv.now() < self._killed_at + KILLED_MAX
  elseif self._rest_grace then
    self:_kill_after(self._rest_grace)
  end
  return self._kill_timer ~= nil
end

-- Returns at once if the end of the group must still be waited for. Otherwise takes the foreground
-- of the terminal back from the group, and calls on_exit.
function Child:_finish_if_done()
  if self:_must_wait_for_group() then
    return
  end
  self._poll_timer:close()
  if self._kill_timer then
    self._kill_timer:close()
  end
  if core.terminal_group() == self._pid then
    core.set_terminal_group(core.group())
  end
  self._on_exit(self._what, self._number)
end

--- Ends the group: sends TERM now, and KILL after `grace` seconds.
function Child:terminate(grace)
  self:_signal_group "sigterm"
  self:_signal_group "sigcont" -- a stopped process handles TERM only after CONT
  self:_kill_after(grace)
end

--- Limits the time for which other processes of the group may outlive the child: they get KILL
-- `grace` seconds after the child has ended.
function Child:limit_group(grace)
  self._rest_grace = grace
end

--- Tells whether the child was killed, not by this process, and has left processes in its group.
function Child:has_left_group()
  local _, _, failure = uv.kill(-self._pid, 0)
  return failure ~= "ESRCH" and not self._killed_at and self._what == "signal"
    and self._number == signals.number_of "sigkill"
end

--- Tells whether the child itself has ended. Other processes of its group may still run.
function Child:has_ended()
  return self._has_ended
end

-- Handles a change of the child's state. `what` is "stop", "exit" or "signal"; `number` is the exit
-- status after "exit", otherwise the number of the signal.
function Child:_on_change(what, number)
  if what == "stop" then
    self:_on_stop(number)
    return
  end
  self._has_ended, self._what, self._number = true, what, number
  self._poll_timer = uv.new_timer()
  self._poll_timer:start(0, POLL, function()
    self:_finish_if_done()
  end)
end

--- Handles SIGCHLD: handles each change of state of `child` (nil: no child runs), and reaps all
-- other processes that have ended. The others are orphans that the child has left: this process is
-- their subreaper, so the kernel makes it their parent.
function Child.reap(child)
  repeat
    local pid, what, number = core.next_child()
    if child and pid == child._pid then
      child:_on_change(what, number)
    end
  until not pid
end

return Child
