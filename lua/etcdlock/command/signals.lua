--- The signals that etcdlock handles, by their names in luv, such as "sigterm": which signals it
-- forwards, which signals end a wait, and which signals were ignored when etcdlock was started.
local uv = require "luv"
local core = require "etcdlock.core"
local upper = require("etcdlock.text").upper

local M = {}

--- Signals that are forwarded to the child (child.lua).
M.FORWARDED = { "sigterm", "sigint", "sighup", "sigquit", "sigusr1", "sigusr2" }

--- Signals that end a wait for the lock: a set.
M.ENDS_WAIT = { sigterm = true, sigint = true, sighup = true, sigquit = true }

--- Signals that are forwarded to the child's whole process group: a set. HUP, USR1 and USR2 go to
-- the child alone. For example, the child may handle HUP by reading its configuration again, but
-- HUP would end the processes that the child has started.
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

-- Signals by which a terminal stops processes.
local STOPS = { "sigtstp", "sigttin", "sigttou" }

--- Returns a set: the signals in M.FORWARDED and STOPS that were ignored when this process was
-- started, for example by nohup. For SIGPIPE this cannot be known, because luv itself ignores
-- SIGPIPE.
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
  -- The Lua interpreter sets its own handler for SIGINT, so the mask does not show whether SIGINT
  -- was ignored at the start. A shell without job control starts a command before "&" with both INT
  -- and QUIT ignored (POSIX, 2.11). So INT counts as ignored if QUIT was ignored.
  ignored.sigint = ignored.sigint or ignored.sigquit
  return ignored
end

local function ignore() end

--- Unblocks the signals in the list `names`, and from now on calls on_signal(name) when one of them
-- arrives. Signals that were ignored when this process was started stay ignored.
-- @return a table with two fields. `blocked` is the list of the numbers of all signals that were
--   blocked before this call. stop() ends the calls of on_signal
function M.handle(names, on_signal)
  local ignored, handles, numbers = M.read_ignored(), {}, {}
  for i, name in ipairs(names) do
    numbers[i] = M.number_of(name)
    -- Even if SIGINT was ignored at the start, the Lua interpreter has set its own handler, which
    -- raises an error. So a SIGINT that counts as ignored gets a handler that does nothing.
    if not ignored[name] or name == "sigint" then
      handles[name] = assert(uv.new_signal())
      handles[name]:start(name, ignored[name] and ignore or function()
        on_signal(name)
      end)
    end
  end
  -- The signals are unblocked after the handlers are set, because a pending signal arrives as soon
  -- as it is unblocked.
  local handling = { blocked = core.unblock(numbers) }
  function handling.stop()
    for _, handle in pairs(handles) do
      handle:close()
    end
  end
  return handling
end

return M
