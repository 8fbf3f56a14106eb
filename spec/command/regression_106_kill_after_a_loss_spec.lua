-- Regression 106: etcdlock got TERM, its command ended, and other processes of the group went on.
-- If the lock was lost then, the KILL for these processes came --grace seconds later than it
-- should. The end of --max-hold also delayed the KILL, and in addition changed the exit status.

local clients = require "spec.support.harness.clients"
local command = require "spec.support.programs.command"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix }
local GRACE = 6 -- seconds

-- A command that ends with the status 3 at TERM. The process that it has started goes on.
local COMMAND = [[
  trap "exit 3" TERM
  sh -c 'trap "" TERM; echo ready; while :; do sleep 0.05; done' &
  while :; do wait; done
]]

describe("regression 106: etcdlock run, after TERM and the end of its command,", function()
  after_each(function()
    proc.destroy_children()
    clients.close_all()
  end)

  -- Runs COMMAND with the options |...| and sends TERM to etcdlock. Returns the job and the time of
  -- the TERM.
  local function start_and_terminate(...)
    local words = { "run", prefix .. "a", "--grace=" .. GRACE, ... }
    for _, word in ipairs { "--", "sh", "-c", COMMAND } do words[#words + 1] = word end
    local job = command.start(words)
    job:expect "^ready"
    job:kill "sigterm"
    return job, wait.now()
  end

  it("kills the other processes no later if the lock is lost", function()
    local job, since = start_and_terminate()
    wait.sleep(GRACE / 2)
    local client = connect()
    assert(client:break_lock("a", client:queue "a"[1].token))
    assert.equal(70, (job:wait()))
    assert.is_true(wait.now() - since < GRACE * 1.4)
  end)

  it("kills the other processes no later if --max-hold is over", function()
    local job, since = start_and_terminate("--max-hold=" .. GRACE / 2)
    assert.equal(3, (job:wait()))
    assert.is_true(wait.now() - since < GRACE * 1.4)
  end)
end)
