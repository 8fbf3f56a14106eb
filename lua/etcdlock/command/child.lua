--- The child: the process that runs under a lock, in a process group of its own. Finds its program,
-- starts it, forwards signals, stops, continues and ends its group.
local uv = require "luv"
local EXIT = require("etcdlock.command.report").EXIT
local core = require "etcdlock.core"
local signals = require "etcdlock.command.signals"

local Child = {}
Child.__index = Child

-- Milliseconds between two checks whether a process of the group is left.
local POLL = 20

-- Milliseconds to wait for killed processes: the kernel may need seconds to free their memory. A
-- zombie that its parent does not reap would never disappear.
local KILLED_MAX = 5000

-- ---- the program ----

-- Search path of execvp if PATH is not set.
local DEFAULT_PATH = "/bin:/usr/bin"

-- Returns whether `path` is an executable file, and its status; nil: there is no such file.
local function is_program(path)
  local stat = uv.fs_stat(path)
  return stat and stat.type ~= "directory" and uv.fs_access(path, "X"), stat
end

--- Finds the program `name` as a shell does. The command calls it before it waits for a lock, so
-- that a misspelt name is reported at once.
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

-- Returns the environment of this process with `extra` (name -> value), as a list of NAME=value.
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

-- Tells whether an interactive shell has started this process alone, in the foreground. In a
-- pipeline or a script, other processes of this process group need the terminal and its Ctrl-C.
local function is_alone_in_foreground()
  local group = core.group()
  return core.pid() == group and core.terminal_group() == group
    and uv.guess_handle(0) == "tty" and uv.guess_handle(1) == "tty"
end

--- Starts the child. It inherits the environment and the open files of this process. `argv`: its
-- program and arguments. `extra`: name -> value, added to the environment. `blocked`: the numbers
-- of the signals that are blocked in it. on_exit("exit", status) or on_exit("signal", number) is
-- called when the child has ended; after terminate or limit_group, when its whole group has ended.
-- may_continue() tells whether the child may continue after a stop.
-- @return child; or nil, message, exit status; the status may be nil
function Child.start(argv, extra, blocked, on_exit, may_continue)
  local path, message, status = Child.find_program(argv[1]) -- may be gone after a long wait
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
    -- Process and process group of the child.
    _pid = pid,
    -- True if the group was in the foreground of the terminal when it last ran.
    _has_terminal = has_terminal,
    _on_exit = on_exit,
    _may_continue = may_continue,
    -- _must_continue: true from continue_after_stop to the next continue.
    -- _has_ended: true after the end of the child; then _what and _number say how it ended.
    -- _rest_grace: seconds, set by limit_group.
    -- _kill_timer: sends KILL to the group. _killed_at: when it did (uv.now, milliseconds).
    -- _poll_timer: calls _finish_if_done from the end of the child on.
  }, Child)
end

-- Sends the signal `name` to the whole group.
function Child:_signal_group(name)
  uv.kill(-self._pid, name)
end

--- Forwards the signal `name` to the child or to its group.
function Child:forward(name)
  if signals.FOR_GROUP[name] then
    self:_signal_group(name)
  elseif not self._has_ended then
    uv.kill(self._pid, name)
  end
end

-- ---- stop and continue ----

--- Continues the stopped group, if may_continue() allows it. Gives it the foreground of the
-- terminal if it had that before, and this process has it now.
function Child:continue()
  self._must_continue = false
  if not self._may_continue() then
    return
  elseif self._has_terminal and core.terminal_group() == core.group() then
    core.set_terminal_group(self._pid)
  end
  self:_signal_group "sigcont"
end

--- Has the group continued as soon as the child has stopped. For a TSTP that was forwarded to the
-- child although etcdlock itself could not stop: without this the child would stay stopped. CONT is
-- not sent at once, because it would cancel the TSTP if that is still pending.
function Child:continue_after_stop()
  self._must_continue = true
end

local TSTP = signals.number_of "sigtstp"
-- Signals that a terminal sends to a background group that uses the terminal: a set of numbers.
local WANTS_TERMINAL = {
  [signals.number_of "sigttin"] = true, [signals.number_of "sigttou"] = true,
}

-- Handles a stop of the child by the signal `number`.
function Child:_on_stop(number)
  local foreground = core.terminal_group()
  if self._must_continue and number == TSTP then
    self:continue()
  elseif WANTS_TERMINAL[number] and foreground == core.group() then
    self._has_terminal = true
    self:continue()
  elseif foreground == self._pid then
    -- If another etcdlock has started this process, it checks which group is in the foreground.
    core.set_terminal_group(core.group())
    core.stop(true)
    -- Here this process was stopped and has been continued; or it could not stop, because no shell
    -- would continue it. In both cases the child must go on.
    self:continue()
  elseif WANTS_TERMINAL[number] and core.stop(true) then
    self:continue()
  end
end

-- ---- the end ----

-- Sends KILL to the group in `grace` seconds, unless an earlier KILL is planned or was sent.
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

-- Tells whether the end of the group must be waited for. After KILL that is so only while it has
-- processes that this process may signal: those of another user are not waited for.
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

-- Calls on_exit if the group need not be waited for.
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
  self:_signal_group "sigcont" -- a stopped process handles no other signal
  self:_kill_after(grace)
end

--- Limits the time of the other processes of the group: they get KILL `grace` seconds after the end
-- of the child.
function Child:limit_group(grace)
  self._rest_grace = grace
end

--- Tells whether the child itself has ended. Other processes of its group may still run.
function Child:has_ended()
  return self._has_ended
end

-- Handles a change of the child's state: `what` is "stop", "exit" or "signal".
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

--- Handles SIGCHLD: reads each change of state of `child` (nil: none runs), and reaps all other
-- children. Those are orphans of the child, which the kernel gives to this process as their
-- subreaper.
function Child.reap(child)
  repeat
    local pid, what, number = core.next_child()
    if child and pid == child._pid then
      child:_on_change(what, number)
    end
  until not pid
end

return Child
