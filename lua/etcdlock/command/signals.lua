--- Signals: which ones the command passes on, and to whom they have come already.
local uv = require "luv"
local characters = require "etcdlock.characters"

local M = {}

--- Those that are passed on, in luv's words, and which of them ends a wait.
M.PASSED = { "sigterm", "sigint", "sighup", "sigquit", "sigusr1", "sigusr2" }
M.ENDS_WAIT = { sigterm = true, sigint = true, sighup = true, sigquit = true }

--- The number of a signal.
function M.number(name)
  return uv.constants[characters.upper(name)]
end

local function read(path)
  local file = io.open(path)
  local text = file and file:read "*a"
  if file then
    file:close()
  end
  return text or ""
end

-- What a terminal sends to have a process stop.
local STOPS = { "sigtstp", "sigttin", "sigttou" }

--- Those that whoever started us has had ignored, as nohup does: a set of names. SIGPIPE
-- isn't among them, since luv ignores that itself.
function M.ignored()
  local mask = tonumber(read("/proc/self/status"):match "SigIgn:%s*(%x+)" or "0", 16)
  local ignored = {}
  for _, names in ipairs { M.PASSED, STOPS } do
    for _, name in ipairs(names) do
      if math.floor(mask / 2 ^ (M.number(name) - 1)) % 2 == 1 then
        ignored[name] = true
      end
    end
  end
  -- The Lua interpreter hears SIGINT itself, whatever it was told to do with it. A shell
  -- that has no job control ignores both for what stands before "&" (POSIX, 2.11).
  ignored.sigint = ignored.sigint or ignored.sigquit
  return ignored
end

--- The process group of a process, and that in the foreground of its terminal.
local function groups(pid)
  local group, foreground = read(("/proc/%s/stat"):format(pid))
    :match ".*%) %S %S+ (%S+) %S+ %S+ (%S+)"
  return group, foreground
end

-- What a terminal sends to all who are in its foreground, when keys are pressed.
local BY_KEYS = { sigint = true, sigquit = true, sigtstp = true }

--- Has a signal that has come to us come to process `pid` as well? One that keys have made
-- has, and which one that is nobody tells; so it is said of all, while both are in the
-- foreground of a terminal.
function M.came_to(pid, name)
  if not BY_KEYS[name] then
    return false
  end
  local ours, foreground = groups "self"
  return ours ~= nil and ours == foreground and ours == groups(pid)
end

local function ignore() end

--- Has call(name) called for each signal of `names`; what was ignored stays so. Returns what
-- hears them: its methods are forget(), and default(name), which does once what the signal
-- does to who doesn't hear it (one that is to stop is not stopped where no shell could have
-- it go on).
function M.hear(names, call)
  local ignored, handles = M.ignored(), {}
  local function start(name)
    handles[name]:start(name, ignored[name] and ignore or function()
      call(name)
    end)
  end
  for _, name in ipairs(names) do
    if not ignored[name] or name == "sigint" then -- the interpreter's, if not ours
      handles[name] = assert(uv.new_signal())
      start(name)
      handles[name]:unref()
    end
  end
  local hearing = {}
  function hearing.default(name)
    handles[name]:stop()
    uv.kill(uv.os_getpid(), name)
    start(name)
  end
  function hearing.forget()
    for _, handle in pairs(handles) do
      handle:close()
    end
  end
  return hearing
end

return M
