-- Regression 079: when etcdlock passed TERM on, or sent TERM after a loss, only the command got it,
-- not the processes that the command had started. These processes went on, even while the next
-- holder's command ran.

local clients = require "spec.support.harness.clients"
local command = require "spec.support.programs.command"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local suite = require "spec.support.harness.suite"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix, ttl = 10 }
local NAME = prefix .. "a"

after_each(function()
  proc.destroy_children()
  clients.close_all()
end)

local function start(script, ...)
  local words = { "run", NAME, ... }
  for _, word in ipairs { "--", "sh", "-c", script } do words[#words + 1] = word end
  return command.start(words)
end

local function runs(pid)
  local text = read_file(("/proc/%d/stat"):format(pid))
  return text and text:match ".*%) (%S)" ~= "Z"
end

-- Makes the holder lose the lock.
local function take_away()
  local client = connect()
  assert(client:break_lock("a", client:queue "a"[1].token))
end

describe("regression 079: the processes that the command of etcdlock run has started", function()
  it("get TERM when etcdlock gets it", function()
    local job = start "sleep 40 & echo ready $!; wait"
    local pid = tonumber((job:expect "^ready (%d+)"))
    job:kill "sigterm"
    assert.equal(128 + 15, (job:wait()))
    wait.eventually(function() return not runs(pid) end, 5, "the end of sleep")
  end)

  it("get TERM when the lock is lost, and have --grace for their end", function()
    local job = start([[
      sh -c 'trap "sleep 0.5; echo cleaned; exit" TERM; echo ready; while :; do sleep 0.05; done' &
      exec sleep 40
    ]], "--grace=10")
    job:expect "^ready"
    take_away()
    assert.equal(70, (job:wait()))
    assert.matches("cleaned\n$", job.out.text)
  end)

  it("are killed after --grace if they ignore TERM", function()
    local job = start([[
      sh -c 'trap "" TERM; echo ready $$; while :; do sleep 0.05; done' &
      exec sleep 40
    ]], "--grace=0.5")
    local pid = tonumber((job:expect "^ready (%d+)"))
    take_away()
    assert.equal(70, (job:wait()))
    wait.eventually(function() return not runs(pid) end, 5, "the end of sh")
  end)

  it("go on when the command ends by itself", function()
    local job = start "sleep 40 >/dev/null 2>&1 & echo ready $!"
    local pid = tonumber((job:expect "^ready (%d+)"))
    assert.equal(0, (job:wait()))
    assert.is_true(runs(pid))
    uv.kill(pid, "sigkill")
  end)

  it("do not get HUP, USR1 and USR2, which may ask the command for something else", function()
    local job = start [[
      sleep 40 &
      for s in HUP USR1 USR2; do trap "echo got-$s" $s; done
      echo ready $!
      while ! read line; do :; done
    ]]
    local pid = tonumber((job:expect "^ready (%d+)"))
    for _, name in ipairs { "HUP", "USR1", "USR2" } do
      job:kill("sig" .. name:lower())
      job:expect("^got%-" .. name)
    end
    assert.is_true(runs(pid))
    uv.kill(pid, "sigkill")
    job:send "go"
    assert.equal(0, (job:wait()))
  end)
end)
