--- Signals of the command, by luv's names: which ones it forwards, and which ones were ignored from
-- its start.
local uv = require "luv"
local core = require "etcdlock.core"
local upper = require("etcdlock.text").upper

local M = {}

--- Signals that are forwarded to the child (child.lua).
M.FORWARDED = { "sigterm", "sigint", "sighup", "sigquit", "sigusr1", "sigusr2" }

--- Signals that end a wait for the lock: a set.
M.ENDS_WAIT = { sigterm = true, sigint = true, sighup = true, sigquit = true }

--- Signals that are forwarded to the child's whole process group: a set. The others go to the child
-- alone: it may use HUP to read its configuration again, but HUP would end the processes that it
-- has started.
M.FOR_GROUP = { sigterm = true, sigint = true, sigquit = true, sigtstp = true }

--- Returns the number of the signal `name`.
function M.number_of(name)
  return uv.constants[upper(name)]
end

local function read_file(path)
  local file = io.open(path)
  local text = file and file:read "*a"
  if file then
    file:close()
  end
  return text or ""
end

-- Signals of a terminal that stop a process.
local STOPS = { "sigtstp", "sigttin", "sigttou" }

--- Returns the signals that were ignored when this process was started, by nohup for example: a
-- set. SIGPIPE is never in it, because luv itself ignores SIGPIPE.
function M.read_ignored()
  local mask = tonumber(read_file("/proc/self/status"):match "SigIgn:%s*(%x+)" or "0", 16)
  local ignored = {}
  for _, names in ipairs { M.FORWARDED, STOPS } do
    for _, name in ipairs(names) do
      if math.floor(mask / 2 ^ (M.number_of(name) - 1)) % 2 == 1 then
        ignored[name] = true
      end
    end
  end
  -- The Lua interpreter handles SIGINT even if it was ignored at its start. A shell without job
  -- control ignores INT and QUIT for a command before "&" (POSIX, 2.11).
  ignored.sigint = ignored.sigint or ignored.sigquit
  return ignored
end

local function ignore() end

--- Calls on_signal(name) for each signal in the list `names` that arrives. Unblocks these signals.
-- Signals that were ignored from the start stay ignored.
-- @return a table with `blocked`, the list of the numbers of all signals that were blocked before,
--   and stop(), which ends the calls
function M.handle(names, on_signal)
  local ignored, handles, numbers = M.read_ignored(), {}, {}
  for i, name in ipairs(names) do
    numbers[i] = M.number_of(name)
    -- The Lua interpreter has replaced "ignore" for SIGINT by its own handler, which raises an
    -- error. So an ignored SIGINT gets a handler that does nothing.
    if not ignored[name] or name == "sigint" then
      handles[name] = assert(uv.new_signal())
      handles[name]:start(name, ignored[name] and ignore or function()
        on_signal(name)
      end)
    end
  end
  -- Last, because a pending signal arrives as soon as it is unblocked.
  local handling = { blocked = core.unblock(numbers) }
  function handling.stop()
    for _, handle in pairs(handles) do
      handle:close()
    end
  end
  return handling
end

return M
