--- The process that runs under a lock, in a process group of its own: how it is started,
-- signalled, stopped and ended.
local uv = require "luv"
local core = require "etcdlock.core"
local program = require "etcdlock.command.program"
local signals = require "etcdlock.command.signals"

local Child = {}
Child.__index = Child

-- How often it is asked whether a process of the group is left, in ms.
local POLL = 20

-- How long killed processes are awaited, in ms: the kernel may need seconds to free their memory.
-- A zombie whose parent does not reap it would never end.
local KILLED_MAX = 5000

--- Our environment, and `extra`: a list of NAME=value.
local function environment(extra)
  local all, list = uv.os_environ(), {}
  for name, value in pairs(extra) do
    all[name] = value
  end
  for name, value in pairs(all) do
    list[#list + 1] = name .. "=" .. value
  end
  return list
end

-- Did an interactive shell start this process alone, in the foreground? In a pipeline or a script,
-- other processes of our group need the terminal and its Ctrl-C.
local function is_alone_in_foreground()
  local group = core.group()
  return core.pid() == group and core.terminal_group() == group
    and uv.guess_handle(0) == "tty" and uv.guess_handle(1) == "tty"
end

--- Starts the child `argv`. It inherits our open files and our environment with `extra` (name =
-- value), and blocks the signals in `blocked`, a list of numbers.
-- on_exit("exit", code) or on_exit("signal", number) is called when the child has ended; if
-- terminate or limit_rest was called, when its whole group has ended. may_continue()
-- tells whether the child may run on after a stop.
-- @return child | nil, message, exit status
function Child.start(argv, extra, blocked, on_exit, may_continue)
  local path, message, status = program.find(argv[1]) -- it may have gone while we waited
  if not path then
    return nil, message, status
  end
  local ignored = {}
  for name in pairs(signals.ignored()) do
    ignored[#ignored + 1] = signals.number(name)
  end
  local has_terminal = is_alone_in_foreground()
  local pid
  pid, message = core.start_child(argv, environment(extra), ignored, blocked, has_terminal)
  if not pid then
    return nil, ("%s: it can't be executed: %s"):format(argv[1], message)
  end
  return setmetatable({
    _pid = pid,
    _has_terminal = has_terminal,
    _on_exit = on_exit,
    _may_continue = may_continue,
  }, Child)
end

-- Sends a signal, of luv's names, to the whole group.
function Child:_signal_group(name)
  uv.kill(-self._pid, name)
end

--- Passes on a signal that has come to us.
function Child:pass(name)
  if signals.FOR_GROUP[name] then
    self:_signal_group(name)
  elseif not self._has_ended then
    uv.kill(self._pid, name)
  end
end

-- ---- stop and continue ----

--- Continues the group after a stop, in the foreground if it was there and we are now.
function Child:continue()
  self._is_to_continue = false
  if not self._may_continue() then
    return
  elseif self._has_terminal and core.terminal_group() == core.group() then
    core.set_terminal_group(self._pid)
  end
  self:_signal_group "sigcont"
end

--- Continues the group when the child stops at the TSTP that was passed to it, unless a CONT comes
-- first. (A CONT sent now would cancel that TSTP if it is still pending.)
function Child:continue_after_stop()
  self._is_to_continue = true
end

local TSTP = signals.number "sigtstp"
-- What a terminal sends to a group in its background that uses the terminal.
local WANTS_TERMINAL = { [signals.number "sigttin"] = true, [signals.number "sigttou"] = true }

-- Called when it was stopped by the signal with the number `number`.
function Child:_on_stop(number)
  local foreground = core.terminal_group()
  if self._is_to_continue and number == TSTP then
    self:continue()
  elseif WANTS_TERMINAL[number] and foreground == core.group() then
    self._has_terminal = true
    self:continue()
  elseif foreground == self._pid then
    core.set_terminal_group(core.group()) -- another etcdlock that has started us looks there
    core.stop(true)
    self:continue() -- also if no shell could have continued us: nobody else would
  elseif WANTS_TERMINAL[number] and core.stop(true) then
    self:continue()
  end
end

-- ---- the end ----

-- Kills the group `grace` seconds from now, or earlier if that was said before.
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

-- Is the group awaited? After KILL only the processes that could be killed, not those of another
-- user.
function Child:_is_awaited()
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

-- Calls on_exit if the child has ended and no process of its group is waited for.
function Child:_conclude()
  if self:_is_awaited() then
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
  self:_signal_group "sigcont" -- a stopped process does not see other signals
  self:_kill_after(grace)
end

--- Limits the time of the other processes of the group: they get KILL `grace` seconds after the
-- end of the child.
function Child:limit_rest(grace)
  self._rest_grace = grace
end

--- Has the child itself ended? Its group may go on.
function Child:has_ended()
  return self._has_ended
end

function Child:_notice(what, number)
  if what == "stop" then
    self:_on_stop(number)
    return
  end
  self._has_ended, self._what, self._number = true, what, number
  self._poll_timer = uv.new_timer()
  self._poll_timer:start(0, POLL, function()
    self:_conclude()
  end)
end

--- Takes note of what has happened to `child` (nil: none runs), after SIGCHLD. Reaps all other
-- children, too: the orphans of the command.
function Child.reap(child)
  repeat
    local pid, what, number = core.next_child()
    if child and pid == child._pid then
      child:_notice(what, number)
    end
  until not pid
end

return Child
