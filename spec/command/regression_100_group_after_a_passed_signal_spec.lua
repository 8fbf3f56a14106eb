-- Regression 100: etcdlock passes TERM, INT and QUIT to the process group of its command. It
-- released the lock when the command had ended, although other processes of the group still ran.
-- These processes went on beside the next holder's command, and nothing ended them.

local clients = require "spec.support.harness.clients"
local command = require "spec.support.programs.command"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local suite = require "spec.support.harness.suite"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix }
local NAME = prefix .. "a"

-- A command that ends with the status 3 at a signal. The process that it has started ignores these
-- signals, and ends when the file $0/finish is there, or the directory $0 is gone.
local COMMAND = [[
  trap "exit 3" TERM INT QUIT HUP
  sh -c 'trap "" TERM INT QUIT HUP
         echo ready $PPID $$
         while test -d "$0" && ! test -e "$0/finish"; do sleep 0.05; done
         echo finished' "$0" &
  while :; do wait; done
]]

local function runs(pid)
  local text = read_file(("/proc/%d/stat"):format(pid))
  return text and text:match ".*%) (%S)" ~= "Z"
end

describe("regression 100: etcdlock run, when its command ends", function()
  local directory

  before_each(function() directory = temporary.directory() end)

  after_each(function()
    temporary.remove_all()
    proc.destroy_children()
    clients.close_all()
  end)

  -- Runs COMMAND with --grace=|grace|, sends the signal |name| to etcdlock, and waits until the
  -- command has ended. Returns the job and the pid of the process that the command has started.
  local function start_and_signal(name, grace)
    local job = command.start { "run", NAME, "--grace=" .. grace, "--", "sh", "-c", COMMAND,
      directory }
    local pid, started = job:expect "^ready (%d+) (%d+)"
    job:kill(name)
    wait.eventually(function() return not runs(tonumber(pid)) end, 5, "the end of the command")
    return job, tonumber(started)
  end

  for _, name in ipairs { "sigterm", "sigint", "sigquit" } do
    it("after " .. name:upper() .. ", keeps the lock until its whole group has ended", function()
      local job = start_and_signal(name, 300)
      local client = connect()
      clients.assert_fails("timeout", clients.answered(client.lock, client, "a", { timeout = 1 }))
      assert(io.open(directory .. "/finish", "w")):close()
      assert.equal(3, (job:wait()))
      assert.matches("finished\n$", job.out.text)
      assert(assert(client:lock "a"):unlock())
    end)
  end

  it("after TERM, kills the other processes of its group when --grace is over", function()
    local job, pid = start_and_signal("sigterm", 0.5)
    assert.equal(3, (job:wait()))
    wait.eventually(function() return not runs(pid) end, 5, "the end of the process")
  end)

  it("after TERM, exits with 70 if the lock is lost before the end of its group", function()
    local job = start_and_signal("sigterm", 300)
    local client = connect()
    assert(client:break_lock("a", client:queue "a"[1].token))
    wait.eventually(function() return job:errors():find "was lost" end, 5, "the loss is noticed")
    assert(io.open(directory .. "/finish", "w")):close()
    assert.equal(70, (job:wait()))
  end)

  it("after HUP, which is for the command alone, leaves the other processes alone", function()
    local job, pid = start_and_signal("sighup", 0.5)
    etcd:await_keys(NAME .. "/", 0)
    assert.is_true(runs(pid))
    uv.kill(pid, "sigkill")
    assert.equal(3, (job:wait()))
  end)
end)
