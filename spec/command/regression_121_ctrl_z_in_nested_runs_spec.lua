-- Regression 121: at a terminal, one etcdlock ran another one. At Ctrl-Z the inner etcdlock
-- stopped, but left the foreground of the terminal to its command. The outer etcdlock stops only if
-- it finds the inner one in the foreground. So the outer one went on, and the shell waited without
-- end.

local command = require "spec.support.programs.command"
local proc = require "spec.support.programs.proc"
local session = require "spec.support.programs.session"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local NAME = suite.prefix() .. "a"
local CTRL_Z = "\26"

local etcd = suite.etcd()

after_each(proc.destroy_children)

describe("regression 121: etcdlock run that runs etcdlock run at a terminal", function()
  it("stops with its command at Ctrl-Z, and continues with fg", function()
    local words, env = command.words()
    env.RUN = ("%s %s run %s"):format(words[1], words[2], NAME)
    env.PS1, env.TERM = "$ ", "dumb"
    local terminal = proc.talk(session.at_terminal "bash --norc --noprofile -i", env)
    terminal.stdin:write "$RUN/1 -- $RUN/2 -- sh -c 'echo rea''dy; read line; echo got $line'\n"
    terminal:expect "ready"
    terminal.stdin:write(CTRL_Z)
    terminal:expect "Stopped"
    terminal.stdin:write "fg\n"
    wait.eventually(function()
      terminal.stdin:write "again\n"
      return terminal.out.text:find "got again"
    end, 5, "it goes on")
    terminal.stdin:write "exit\n"
    terminal:wait()
    etcd:await_keys(NAME .. "/", 0)
  end)
end)
