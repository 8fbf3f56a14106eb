-- Runs test programs on an event loop, each in its own process. A program is the same for every
-- loop; it uses these functions, the modules and the prefix in COMMON, and two clients:
--   go(fn)                starts a coroutine
--   sleep(s)              suspends the running coroutine for s seconds
--   run()                 runs the loop until all coroutines have ended, and fails if the loop does
--                         not end then
--   client, other         two clients; each counts as a client of another process for the other
--   connect(opts)         returns a new client
--   equal(wanted, got)    fails if the two differ
--   fails(code, ...)      fails unless ... are the results of a call that failed with code
--   answered(fn)          calls fn until its code is not "unavailable", and returns its results
--   took(s, from)         fails unless about s seconds have passed since the time from
--   times_out(s, fn)      fails unless fn returns "timeout" after about s seconds
--   attempt(fn, ...)      pcall; fn may yield
--   descriptors()         returns the number of open file descriptors
--   spin(on)              starts or stops a coroutine that increments the variable ticks

local assert = require "luassert"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"

local M = {}

local COMMON = [[
local endpoint, prefix, loop = ...
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local etcdlock = require "etcdlock"
local uv = require "luv"

local function connect(opts)
  local all = { endpoints = endpoint, prefix = prefix, loop = loop ~= "" and loop or nil }
  for field, value in pairs(opts or {}) do all[field] = value end
  return assert(etcdlock.connect(all))
end
-- Each counts as a client of another process for the other, so waiting is no deadlock.
local client, other = connect(), connect()
other._held_locks._members = {}

local function equal(wanted, got)
  if wanted ~= got then
    error(("wanted %s, got %s"):format(tostring(wanted), tostring(got)), 2)
  end
end

local function fails(code, ok, message, got)
  if ok or got ~= code then
    error(("wanted %s, got %s, %s, %s"):format(code, tostring(ok), tostring(message),
      tostring(got)), 2)
  end
  return message
end

-- For calls whose time limit may be too short for etcd on a busy machine.
local function answered(call)
  local ok, message, code
  repeat ok, message, code = call() until code ~= "unavailable"
  return ok, message, code
end

local SLACK = require("spec.support.harness.wait").SLACK

-- Fails unless |seconds| have passed since |from|, and at most SLACK more.
local function took(seconds, from)
  local late = core.now() - from - seconds
  if late < -0.002 or late > SLACK then error("late by " .. late .. " s", 2) end
end

-- Fails unless |call| returns "timeout", after about |seconds|.
local function times_out(seconds, call)
  local from
  fails("timeout", answered(function()
    from = core.now()
    return call()
  end))
  took(seconds, from)
end

local function descriptors()
  local scan, count = assert(uv.fs_scandir "/proc/self/fd"), 0
  for _ in function() return uv.fs_scandir_next(scan) end do count = count + 1 end
  return count
end

-- pcall; fn may yield.
local attempt = coroutines.can_yield_in_pcall and pcall or require("coxpcall").pcall

local go, sleep, run
local live, ticks, spinning = 0, 0, false

local function counted(fn)
  live = live + 1
  return function()
    fn()
    live = live - 1
  end
end

local function spin(on)
  spinning = on
  if on then
    go(function()
      while spinning do
        ticks = ticks + 1
        sleep(0)
      end
    end)
  end
end
]]

-- Defines go, sleep and run: loop name -> Lua source.
local PREAMBLES = {}

PREAMBLES.cqueues = [[
local cqueues = require "cqueues"
local controller = cqueues.new()

function go(fn) controller:wrap(counted(fn)) end

sleep = cqueues.sleep

function run()
  local ok, failure = controller:loop(60)
  if not ok then error(failure, 0) end
  equal(true, controller:empty())
  equal(0, live)
end
]]

PREAMBLES.luv = [[
local function resume(thread)
  local ok, failure = coroutine.resume(thread)
  if not ok then error(debug.traceback(thread, failure), 0) end
end

function go(fn) resume(coroutine.create(counted(fn))) end

function sleep(seconds)
  local thread, timer = coroutines.running(), uv.new_timer()
  -- libuv runs timers before it polls, as long as one is due.
  timer:start(math.max(1, math.ceil(seconds * 1000)), 0, function()
    timer:close()
    resume(thread)
  end)
  coroutine.yield()
end

function run()
  uv.run()
  equal(false, uv.loop_alive())
  equal(0, live)
end
]]

-- Copas 1 has no sleep function, and its loop never ends.
PREAMBLES.copas = [[
local copas = require "copas"

function go(fn)
  copas.addthread(counted(function()
    copas.setErrorHandler(function(failure, thread)
      io.stderr:write(debug.traceback(thread, failure), "\n")
      os.exit(1)
    end)
    fn()
  end))
end

local sleeping = 0

function sleep(seconds)
  local at, asked = core.now() + seconds, false
  local function is_over() return core.now() >= at end
  sleeping = sleeping + 1
  copas.receive {
    getfd = function() return is_over() and 0 or -1 end,
    dirty = is_over,
    receive = function()
      local again = asked
      asked = true
      return again or nil, "timeout"
    end,
    close = function() end,
  }
  sleeping = sleeping - 1
end

function run()
  while live > 0 do copas.step(sleeping > 0 and 0.001 or nil) end
  for _ = 1, 3 do copas.step(0) end
  equal(false, copas.step(0))
end
]]

-- Each program has its own key prefix, so that keys left by a failed program do not affect the
-- next.
local program_count = 0

local function prefix(name)
  program_count = program_count + 1
  return ("wait/%s_spec/%d/"):format(name, program_count)
end

-- Loops that a client does not always detect, so the option `loop` names them.
local OPT_IN = { luv = "luv", copas = "copas" }

-- Starts the program |source| on the loop |name|, with clients of |etcd| (default: the suite's
-- etcd). Returns the child, which prints "done" at its end.
function M.start(name, source, etcd)
  return proc.lua(COMMON .. PREAMBLES[name] .. source .. [[

client:close()
other:close()
print "done"]],
    (etcd or suite.etcd()):endpoints(), prefix(name), OPT_IN[name] or "")
end

-- Waits at most |seconds| (30) until |child| is done. Returns its exit status and signal.
function M.finish(child, seconds)
  child:expect("^done$", seconds or 30)
  return child:wait()
end

-- Returns why |module| cannot be tested; nil if this Lua can load it.
function M.missing(module)
  local out = proc.run_lua("spec/support/programs/child.lua",
    { ("print((pcall(require, %q)))"):format(module) })
  if out ~= "true\n" then
    return ("%s is not installed for %s"):format(module, jit and jit.version or _VERSION)
  end
end

-- Returns a test function that runs |program| on the loop |name|. |program| is Lua source, or a
-- function that gets the name of the loop, runs a program and returns its exit status.
function M.test(name, program)
  return function()
    local status = type(program) == "function" and program(name)
      or M.finish(M.start(name, program))
    assert.equal(0, status)
  end
end

return M
