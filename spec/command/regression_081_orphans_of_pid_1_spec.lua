-- Regression 081: as the first process of a container, etcdlock becomes the parent of all orphans.
-- It did not reap them, so they remained zombies for as long as the command ran.

local command = require "spec.support.programs.command"
local proc = require "spec.support.programs.proc"
local session = require "spec.support.programs.session"
local suite = require "spec.support.harness.suite"

suite.etcd()

after_each(proc.destroy_children)

local function as_pid_1(env, ...)
  return proc.talk(session.as_pid_1(...), env)
end

describe("regression 081: etcdlock run with pid 1", function()
  it("reaps orphans, passes TERM on, and exits with the command's status", function()
    if as_pid_1({}, "true"):wait() ~= 0 then pending "unshare needs rights" end
    local words, env = command.words()
    local job = as_pid_1(env, words[1], words[2], "run", suite.prefix() .. "a", "--", "sh", "-c", [[
      trap 'exit 3' TERM
      orphan=$(sh -c 'sleep 0.1 >/dev/null & echo $!')
      while test -d /proc/$orphan; do sleep 0.05; done
      echo reaped by $PPID
      while :; do sleep 0.05; done
    ]])
    assert.equal("1", (job:expect "^reaped by (%d+)"))
    assert(require "luv".kill(proc.children_of(job.pid)[1], "sigterm"))
    assert.equal(3, (job:wait()))
  end)
end)
