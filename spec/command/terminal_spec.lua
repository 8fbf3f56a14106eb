-- Tests etcdlock run at a terminal, which `script` (of Debian's bsdutils) creates: the signals of
-- Ctrl-C, Ctrl-\ and Ctrl-Z, and the message about the holder that it waits for.

local NAME = prefix .. "a"
local CTRL_C, CTRL_Z = "\3", "\26"

-- Runs the shell code |text| at a terminal of its own. Input from the test acts as key presses.
local function at_terminal(text)
  local words, env = command.words()
  env.LUA = uv.exepath()
  env.COMMAND, env.NAME = ("%s %s"):format(words[1], words[2]), NAME
  env.PS1, env.TERM = "$ ", "dumb"
  return proc.talk(session.at_terminal(text), env)
end

local function press(terminal, keys) terminal.stdin:write(keys) end

-- Types |line| into an interactive shell at a terminal of its own.
local function in_bash(line)
  local terminal = at_terminal "bash --norc --noprofile -i"
  press(terminal, line .. "\n")
  return terminal
end

-- Continues the stopped job of an interactive shell with fg, has the job answer one line, and ends
-- the shell.
local function assert_continues_with_fg(terminal)
  press(terminal, "fg\n")
  wait.eventually(function()
    press(terminal, "again\n")
    return terminal.out.text:find "got again"
  end, 5, "it goes on")
  press(terminal, "exit\n")
  terminal:wait()
  etcd:await_keys(NAME .. "/", 0)
end

describe("etcdlock run at a terminal", function()
  it("delivers each Ctrl-C and each Ctrl-Backslash to the command exactly once", function()
    local terminal = at_terminal("exec $COMMAND run $NAME -- $LUA "
      .. "spec/support/programs/signals.lua sigint sigquit sigusr1")
    local pid = terminal:expect "^ready %d+ (%d+)"
    local function heard(name) return select(2, terminal.out.text:gsub("got " .. name, "")) end
    for i = 1, 5 do -- two equal signals at once may arrive as one
      press(terminal, CTRL_C)
      wait.eventually(function() return heard "sigint" >= i end)
      press(terminal, "\28") -- Ctrl-\
      wait.eventually(function() return heard "sigquit" >= i end)
    end
    uv.kill(tonumber(pid), "sigusr1")
    terminal:expect "got sigusr1"
    assert.equal(5, heard "sigint")
    assert.equal(5, heard "sigquit")
    press(terminal, "go\n")
    assert.equal(0, (terminal:wait()))
  end)

  it("prints the holder's pid while it waits, and leaves the queue at Ctrl-C", function()
    clients.keep(assert(client:lock "a"))
    local terminal = at_terminal "exec $COMMAND run $NAME -- true"
    assert.equal(("%d"):format(uv.os_getpid()), terminal:expect(
      '^etcdlock: lock "' .. NAME:gsub("%p", "%%%0")
        .. '": held by pid (%d+) on .*, queued since .*; waiting'))
    etcd:await_keys(NAME .. "/", 2)
    press(terminal, CTRL_C)
    assert.equal(130, (terminal:wait()))
    etcd:await_keys(NAME .. "/", 1)
  end)

  it("prints nothing while it waits with --quiet", function()
    local lock = assert(client:lock "a")
    local quiet = at_terminal "exec $COMMAND run $NAME --quiet -- true"
    local other = at_terminal "exec $COMMAND run $NAME -- true"
    etcd:await_keys(NAME .. "/", 3)
    other:expect("queued since") -- both runs have waited for 1 s
    wait.sleep(0.5)
    assert(lock:unlock())
    assert.equal(0, (quiet:wait()))
    assert.equal("", quiet.out.text)
    assert.equal(0, (other:wait()))
  end)

  -- |lock| is a hold of this process. Starts a run with |options| (a list) that holds the same
  -- name. Asserts that a second run, with |wanted| (a string of options), prints the pid of the
  -- first one while it waits.
  local function assert_in_the_way(lock, options, wanted)
    clients.keep(assert(lock))
    local words = { "run", NAME, "--", "sh", "-c", "echo held; read line" }
    for _, word in ipairs(options) do table.insert(words, 3, word) end
    local holder = command.start(words)
    holder:expect "^held"
    local terminal = at_terminal("exec $COMMAND run $NAME " .. wanted .. " -- true")
    assert.equal(("%d"):format(holder.pid),
      terminal:expect "held by pid (%d+) on .*, queued since")
    assert.equal(0, (holder:go()))
    assert.equal(0, (terminal:wait()))
  end

  it("that wants the lock prints the lock holder's pid, not a permit holder's", function()
    assert_in_the_way(assert(client:semaphore("a", 3)):lock(), {}, "")
    assert_in_the_way(assert(client:semaphore("a", 3)):try_lock(), {}, "--shared")
  end)

  it("that wants a permit prints a permit holder's pid, not the lock holder's", function()
    assert_in_the_way(client:lock "a", { "--permits=1" }, "--permits=1")
  end)

  it("that wants a read lock prints the pid of the waiting writer before it", function()
    local reader = assert(client:read_lock "a")
    local writer = command.start { "run", NAME, "--", "true" }
    etcd:await_keys(NAME .. "/", 2)
    local terminal = at_terminal "exec $COMMAND run $NAME --shared -- true"
    assert.equal(("%d"):format(writer.pid),
      terminal:expect "queued behind pid (%d+) on .*, queued since")
    assert(reader:unlock())
    assert.equal(0, (writer:wait()))
    assert.equal(0, (terminal:wait()))
  end)

  it("stops at Ctrl-Z, and continues with the shell's fg", function()
    local terminal = in_bash "$COMMAND run $NAME -- sh -c 'echo rea''dy; read line; echo got $line'"
    terminal:expect "ready"
    press(terminal, CTRL_Z)
    terminal:expect "Stopped"
    assert_continues_with_fg(terminal)
  end)

  it("runs the command in the foreground, in a process group of its own", function()
    local terminal = in_bash "$COMMAND run $NAME -- sh -c 'cat /proc/$$/stat'; echo do''ne"
    -- proc(5): pid (comm) state ppid pgrp session tty_nr tpgid
    local pid, group, foreground = terminal:expect "^(%d+) %(sh%) %a %d+ (%d+) %d+ %d+ (%d+)"
    assert.same({ pid, pid }, { group, foreground })
    terminal:expect "done"
    press(terminal, "exit\n")
    terminal:wait()
  end)

  it("gives the terminal to a command in the background of a script when it reads", function()
    local terminal = at_terminal [[
      sh -c '$COMMAND run $NAME -- sh -c "echo ready; read line; echo got \$line"; read x; echo $x'
    ]]
    terminal:expect "ready"
    press(terminal, "again\n")
    terminal:expect "^got again"
    press(terminal, "and again\n")
    terminal:expect "^and again"
    assert.equal(0, (terminal:wait()))
  end)

  it("ends the command and the script around it at Ctrl-C", function()
    local terminal = at_terminal([[
      trap : INT
      sh -c '$COMMAND run $NAME -- sh -c "echo ready; exec sleep 60"; echo next'
      echo ended
    ]])
    terminal:expect "ready"
    press(terminal, CTRL_C)
    terminal:expect "ended"
    assert.is_nil(terminal.out.text:find "next")
    assert.equal(0, (terminal:wait()))
  end)

  it("leaves the terminal to the other commands of a pipeline", function()
    local terminal = in_bash("$COMMAND run $NAME -- sh -c 'echo rea''dy; sleep 60' | "
      .. "sh -c 'read l; echo $l; read key </dev/tty; echo got $key'")
    terminal:expect "^ready"
    press(terminal, "again\n")
    terminal:expect "^got again"
    press(terminal, CTRL_C)
    etcd:await_keys(NAME .. "/", 0)
    press(terminal, "exit\n") -- not before: bash may discard what is typed while it ends the job
    terminal:wait()
  end)

  it("stops in the background when the command reads, and continues with fg", function()
    local terminal = in_bash(
      "$COMMAND run $NAME -- sh -c 'echo rea''dy; read line; echo got $line' &")
    terminal:expect "ready"
    wait.eventually(function()
      press(terminal, "jobs\n")
      return terminal.out.text:find "Stopped"
    end, 5, "its stop")
    assert_continues_with_fg(terminal)
  end)

  it("continues a command that Ctrl-Z stops if no shell could continue it", function()
    local terminal = at_terminal "exec $COMMAND run $NAME -- sh -c 'echo ready; read line; exit 3'"
    terminal:expect "ready"
    press(terminal, CTRL_Z)
    press(terminal, "go\n")
    assert.equal(3, (terminal:wait()))
  end)
end)

-- Regression 121. At a terminal, one etcdlock ran another one. At Ctrl-Z the inner etcdlock
-- stopped, but left the foreground of the terminal to its command. The outer etcdlock stops only if
-- it finds the inner one in the foreground. So the outer one went on, and the shell waited without
-- end.
describe("etcdlock run that runs etcdlock run at a terminal", function()
  it("stops with its command at Ctrl-Z, and continues with fg", function()
    local terminal = in_bash("$COMMAND run $NAME/1 -- $COMMAND run $NAME/2 -- "
      .. "sh -c 'echo rea''dy; read line; echo got $line'")
    terminal:expect "ready"
    press(terminal, CTRL_Z)
    terminal:expect "Stopped"
    assert_continues_with_fg(terminal)
  end)
end)
