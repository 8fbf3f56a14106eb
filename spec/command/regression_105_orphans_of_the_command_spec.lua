-- Regression 105: in a container without an init, nobody reaps the orphans of the command. Such
-- zombies counted as processes of its group, so after TERM etcdlock kept the lock until --grace was
-- over.

local command = require "spec.support.programs.command"
local proc = require "spec.support.programs.proc"
local session = require "spec.support.programs.session"
local suite = require "spec.support.harness.suite"

suite.etcd()

after_each(proc.destroy_children)

-- Runs the shell command line |line| below a pid 1 that reaps no orphans.
local function below_pid_1(line, env)
  env.LINE = line
  local lua = command.words()[1]
  return proc.talk(session.as_pid_1(lua, "-e", "os.execute(os.getenv 'LINE')"), env)
end

-- A command that prints "ready" when there is a zombie in its group, and ends with status 3 at
-- TERM.
local COMMAND = [[
  trap 'exit 3' TERM
  orphan=$(sh -c 'sleep 0.1 >/dev/null & echo $!')
  while test -d /proc/$orphan && ! grep -q '^State:.Z' /proc/$orphan/status; do sleep 0.05; done
  echo ready
  while :; do sleep 0.05; done
]]

describe("regression 105: etcdlock run", function()
  it("reaps the orphans of its command, and ends with the last process of its group", function()
    if below_pid_1("true", {}):wait() ~= 0 then pending "unshare needs rights" end
    local words, env = command.words()
    env.COMMAND = COMMAND
    local job = below_pid_1(([[%s %s run %s --grace=300 -- sh -c "$COMMAND"; echo status $?]])
      :format(words[1], words[2], suite.prefix() .. "a"), env)
    job:expect "^ready"
    local pid_1 = proc.children_of(job.pid)[1]
    local shell = proc.children_of(pid_1)[1]
    assert(require "luv".kill(proc.children_of(shell)[1], "sigterm"))
    job:expect "^status 3"
    job:wait()
  end)
end)
