--- Signals: which ones the command hears and passes on, and which were ignored from the start.
local uv = require "luv"
local characters = require "etcdlock.characters"
local core = require "etcdlock.core"

local M = {}

--- Those that are passed on, in luv's words, and which of them ends a wait.
M.PASSED = { "sigterm", "sigint", "sighup", "sigquit", "sigusr1", "sigusr2" }
M.ENDS_WAIT = { sigterm = true, sigint = true, sighup = true, sigquit = true }

--- Those that are for all processes of a job. The others may mean something else to CMD, as HUP
-- does to a daemon that reads its configuration again, and would end the processes that CMD has
-- started.
M.FOR_GROUP = { sigterm = true, sigint = true, sigquit = true, sigtstp = true }

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

local function ignore() end

--- Calls call(name) for each signal of `names` that comes. Unblocks these signals; those that were
-- ignored from the start stay ignored. Returns a table with forget(), which ends that, and
-- `blocked`: the numbers of all signals that were blocked from the start.
function M.hear(names, call)
  local ignored, handles, numbers = M.ignored(), {}, {}
  for i, name in ipairs(names) do
    numbers[i] = M.number(name)
    if not ignored[name] or name == "sigint" then -- the interpreter's, if not ours
      handles[name] = assert(uv.new_signal())
      handles[name]:start(name, ignored[name] and ignore or function()
        call(name)
      end)
    end
  end
  local hearing = { blocked = core.unblock(numbers) } -- last: a pending signal comes at once
  function hearing.forget()
    for _, handle in pairs(handles) do
      handle:close()
    end
  end
  return hearing
end

return M
