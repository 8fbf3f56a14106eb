-- Regression 102: if no shell can continue etcdlock, etcdlock passes TSTP on to its command, and
-- continues the command after this stop. If the command ignored TSTP, etcdlock continued it at its
-- next stop instead. It did so even if another process had stopped the command, and even if a CONT
-- had come in between.

local command = require "spec.support.programs.command"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local suite = require "spec.support.harness.suite"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local PREFIX = suite.prefix()

suite.etcd()

after_each(proc.destroy_children)

-- Lua code that prints each signal, stops at any TSTP but the first, and ends when it reads a line.
local LISTENS = [[
  local uv = require "luv"
  local first = uv.new_signal()
  first:start("sigtstp", function()
    first:stop()
    print "got sigtstp"
  end)
  for _, name in ipairs { "sigcont", "sigusr1" } do
    uv.new_signal():start(name, function() print("got " .. name) end)
  end
  local input = uv.new_pipe(false)
  input:open(0)
  input:read_start(function() os.exit(0) end)
  print("ready " .. uv.os_getpid())
  uv.run()
]]

local function is_stopped(pid)
  return assert(read_file(("/proc/%d/stat"):format(pid))):match ".*%) (%S)" == "T"
end

local USR1 = uv.constants.SIGUSR1

-- Returns whether USR1 is pending for the process |pid|.
local function has_usr1_pending(pid)
  local text = assert(read_file(("/proc/%d/status"):format(pid)))
  return math.floor(tonumber(text:match "ShdPnd:%s*(%x+)", 16) / 2 ^ (USR1 - 1)) % 2 == 1
end

describe("regression 102: etcdlock run that no shell could continue", function()
  -- Starts etcdlock run |name|, whose command gets TSTP and does not stop. Returns the job, and the
  -- pids of etcdlock and of the command.
  local function start(name)
    local words, env = command.words()
    -- The shell prints the pid, because setsid may fork and then has another pid.
    local job = proc.talk({ "setsid", "--wait", "sh", "-c", 'echo pid $$; exec "$@"', "sh",
      words[1], words[2], "run", PREFIX .. name, "--",
      words[1], "spec/support/programs/child.lua", LISTENS }, env)
    local pid = tonumber((job:expect "^pid (%d+)"))
    finally(function() uv.kill(pid, "sigkill") end) -- this ends the command, too, if it still runs
    local child = tonumber((job:expect "^ready (%d+)"))
    assert(uv.kill(pid, "sigtstp"))
    job:expect "^got sigtstp"
    return job, pid, child
  end

  -- Stops the command with the signal |name|. Asserts that it remains stopped until etcdlock gets
  -- CONT.
  local function assert_remains_stopped(job, pid, child, name)
    assert(uv.kill(child, name))
    wait.eventually(function() return is_stopped(child) end, 5, "the stop")
    assert(uv.kill(pid, "sigusr1")) -- etcdlock handles it after the stop
    wait.eventually(function() return has_usr1_pending(child) end, 5, "USR1 for the command")
    assert.is_true(is_stopped(child))
    assert(uv.kill(pid, "sigcont"))
    job:expect "^got sigusr1"
    job:send "go"
    assert.equal(0, (job:wait()))
  end

  it("leaves a command stopped that somebody else has stopped with STOP", function()
    local job, pid, child = start "a"
    assert_remains_stopped(job, pid, child, "sigstop")
  end)

  it("leaves a command stopped that gets TSTP from somebody else after a CONT", function()
    local job, pid, child = start "b"
    assert(uv.kill(pid, "sigcont"))
    job:expect "^got sigcont"
    assert_remains_stopped(job, pid, child, "sigtstp")
  end)
end)
