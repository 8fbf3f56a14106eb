-- Regression 080: TERM to the process group of etcdlock (`kill -- -PGID`) reached the command
-- twice: from the sender and from etcdlock.

local command = require "spec.support.programs.command"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local uv = require "luv"

local NAME = suite.prefix() .. "a"

suite.etcd()

after_each(proc.destroy_children)

-- Lua code that prints TERM and USR1 as often as they arrive, and ends when it reads a line.
local LISTENS = [[
  local uv = require "luv"
  for _, name in ipairs { "sigterm", "sigusr1" } do
    uv.new_signal():start(name, function() print("got " .. name) end)
  end
  local input = uv.new_pipe(false)
  input:open(0)
  input:read_start(function() os.exit(0) end)
  print "ready"
  uv.run()
]]

describe("regression 080: TERM to the process group of etcdlock run", function()
  it("reaches the command once", function()
    local words, env = command.words()
    -- The shell prints the pid, because setsid may fork and then has another pid.
    local job = proc.talk({ "setsid", "--wait", "sh", "-c", 'echo pid $$; exec "$@"', "sh",
      words[1], words[2], "run", NAME, "--", words[1], "spec/support/programs/child.lua", LISTENS },
      env)
    local pid = tonumber((job:expect "^pid (%d+)"))
    job:expect "^ready"
    for _ = 1, 5 do
      assert(uv.kill(-pid, "sigterm"))
      job:expect "^got sigterm"
      -- etcdlock passes signals on in order, so a second TERM would arrive before these signals.
      for _ = 1, 2 do
        assert(uv.kill(pid, "sigusr1"))
        job:expect "^got sigusr1"
      end
    end
    job:send "go"
    assert.equal(0, (job:wait()))
    assert.equal(5, select(2, job.out.text:gsub("got sigterm", "")))
  end)
end)
