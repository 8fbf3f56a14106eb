-- Regression 101: if SIGCHLD was blocked when etcdlock started, etcdlock did not notice the end of
-- its command and never ended. Other blocked signals did not reach etcdlock either. It started its
-- command with no signal blocked, instead of with the mask that it had got itself.

local clients = require "spec.support.harness.clients"
local command = require "spec.support.programs.command"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local suite = require "spec.support.harness.suite"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()

local count, name = 0, nil

before_each(function()
  -- Each test has its own name, because a test that fails may leave its lock held.
  count = count + 1
  name = ("%d"):format(count)
end)

after_each(function()
  proc.destroy_children()
  clients.close_all()
end)

-- Starts `etcdlock run -- |...|` through `env` of the coreutils, with its option |block|.
local function start(block, ...)
  local words, env = command.words()
  return proc.talk({ "env", block, words[1], words[2], "run", prefix .. name, "--", ... }, env)
end

-- Returns whether |signal|, for example "sigterm", is pending for the process |pid|.
local function is_pending(pid, signal)
  local text = assert(read_file(("/proc/%d/status"):format(pid)))
  local digits = text:match "ShdPnd:%s*%x*(%x%x%x%x%x%x%x%x)"
  return math.floor(tonumber(digits, 16) / 2 ^ (uv.constants[signal:upper()] - 1)) % 2 == 1
end

describe("regression 101: etcdlock run that starts with blocked signals", function()
  it("ends with its command", function()
    assert.equal(3, (start("--block-signal=CHLD", "sh", "-c", "exit 3"):wait()))
  end)

  for _, signal in ipairs { "sigterm", "sigint", "sighup", "sigquit" } do
    it("ends a wait for the lock at " .. signal:upper(), function()
      local client = clients.connector { endpoints = etcd:endpoints(), prefix = prefix } ()
      clients.keep(assert(client:lock(name)))
      local job = start("--block-signal", "true")
      etcd:await_keys(prefix .. name .. "/", 2)
      job:kill(signal)
      assert.equal(128 + uv.constants[signal:upper()], (job:wait()))
    end)
  end

  it("passes signals on, and its command has them blocked", function()
    local job = start("--block-signal", "sh", "-c", "echo ready $$; read line; exit 3")
    local pid = tonumber((job:expect "^ready (%d+)"))
    for _, signal in ipairs { "sigterm", "sigint", "sighup", "sigquit", "sigusr1", "sigusr2" } do
      job:kill(signal)
      wait.eventually(function() return is_pending(pid, signal) end, 5, signal)
    end
    job:send "go"
    assert.equal(3, (job:wait()))
  end)

  for _, block in ipairs { "--block-signal", "--block-signal=CHLD,WINCH,RTMIN" } do
    it("starts its command with the mask that it has got itself: " .. block, function()
      local look = { "grep", "SigBlk", "/proc/self/status" }
      local expected = proc.run { "env", block, look[1], look[2], look[3] }
      local job = start(block, look[1], look[2], look[3])
      assert.equal(0, (job:wait()))
      assert.equal(expected, job.out.text)
    end)
  end
end)
