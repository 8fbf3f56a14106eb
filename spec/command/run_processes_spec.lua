-- Tests the processes that the command of etcdlock run has started: which signals reach them, and
-- what ends them.

client_options { ttl = 10 }
local NAME = prefix .. "a"

-- Regression 079. When etcdlock passed TERM on, or sent TERM after a loss, only the command got it,
-- not the processes that the command had started. These processes went on, even while the next
-- holder's command ran.
describe("the processes that the command of etcdlock run has started", function()
  local function start(script, ...)
    return command.start { "run", NAME, { ... }, command.sh(script) }
  end

  it("get TERM when etcdlock gets it", function()
    local job = start [[
      sh -c 'trap "echo told; exit" TERM; echo ready; while :; do sleep 0.05; done' &
      wait
    ]]
    job:expect "^ready"
    job:kill "sigterm"
    assert.equal(128 + 15, (job:wait()))
    assert.matches("told\n$", job.out.text)
  end)

  it("get TERM when the lock is lost, and have --grace for their end", function()
    local job = start([[
      sh -c 'trap "sleep 0.5; echo cleaned; exit" TERM; echo ready; while :; do sleep 0.05; done' &
      exec sleep 40
    ]], "--grace=10")
    job:expect "^ready"
    clients.take_away(client, "a")
    assert.equal(70, (job:wait()))
    assert.matches("cleaned\n$", job.out.text)
  end)

  it("are killed after --grace if they ignore TERM", function()
    local job = start([[
      sh -c 'trap "" TERM; echo ready $$; while :; do sleep 0.05; done' &
      exec sleep 40
    ]], "--grace=0.5")
    local pid = tonumber((job:expect "^ready (%d+)"))
    clients.take_away(client, "a")
    assert.equal(70, (job:wait()))
    wait.eventually(function() return not proc.state(pid) end, 5, "the end of sh")
  end)

  it("go on when the command ends by itself", function()
    local job = start "sleep 40 >/dev/null 2>&1 & echo ready $!"
    local pid = tonumber((job:expect "^ready (%d+)"))
    assert.equal(0, (job:wait()))
    assert.is_string(proc.state(pid))
    uv.kill(pid, "sigkill")
  end)

  it("go on when the command is killed, which prints a message", function()
    local job = start "sleep 40 >/dev/null 2>&1 & echo ready $! $$; while :; do sleep 0.05; done"
    local pid, shell = job:expect "^ready (%d+) (%d+)"
    uv.kill(tonumber(shell), "sigkill")
    assert.equal(137, (job:wait()))
    assert.is_string(proc.state(pid))
    uv.kill(tonumber(pid), "sigkill")
    assert.matches("sh was killed; processes that it has started go on without the lock\n$",
      job:errors())
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
    assert.is_string(proc.state(pid))
    uv.kill(pid, "sigkill")
    assert.equal(0, (job:go()))
  end)
end)

-- Regression 080. TERM to the process group of etcdlock (`kill -- -PGID`) reached the command
-- twice: from the sender and from etcdlock.
it("TERM to the process group of etcdlock run reaches the command once", function()
  local job, pid = command.start_leader { "run", NAME, "--", uv.exepath(),
    "spec/support/programs/signals.lua", "sigterm", "sigusr1" }
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
  assert.equal(0, (job:go()))
  assert.equal(5, select(2, job.out.text:gsub("got sigterm", "")))
end)

-- Regression 081. As the first process of a container, etcdlock becomes the parent of all orphans.
-- It did not reap them, so they remained zombies for as long as the command ran.
describe("etcdlock run with pid 1", function()
  it("reaps orphans, passes TERM on, and exits with the command's status", function()
    if select(2, proc.run(session.as_pid_1 "true")) ~= 0 then pending "unshare needs rights" end
    local job = command.start_under(session.as_pid_1(), { "run", NAME, command.sh [[
      trap 'exit 3' TERM
      orphan=$(sh -c 'sleep 0.1 >/dev/null & echo $!')
      while test -d /proc/$orphan; do sleep 0.05; done
      echo reaped by $PPID
      while :; do sleep 0.05; done
    ]] })
    assert.equal("1", (job:expect "^reaped by (%d+)"))
    assert(uv.kill(proc.children_of(job.pid)[1], "sigterm"))
    assert.equal(3, (job:wait()))
  end)
end)

-- Regression 100. etcdlock passes TERM, INT and QUIT to the process group of its command. It
-- released the lock when the command had ended, although other processes of the group still ran.
-- These processes went on beside the next holder's command, and nothing ended them.
describe("etcdlock run, when its command ends", function()
  -- A command that ends with the status 3 at a signal. The process that it has started ignores
  -- these signals, and ends when the file $0/finish is there, or the directory $0 is gone.
  local COMMAND = [[
    trap "exit 3" TERM INT QUIT HUP
    sh -c 'trap "" TERM INT QUIT HUP
           echo ready $PPID $$
           while test -d "$0" && ! test -e "$0/finish"; do sleep 0.05; done
           echo finished' "$0" &
    while :; do wait; done
  ]]

  local directory

  before_each(function() directory = temporary.directory() end)

  -- Runs COMMAND with --grace=|grace|, sends the signal |name| to etcdlock, and waits until the
  -- command has ended. Returns the job and the pid of the process that the command has started.
  local function start_and_signal(name, grace)
    local job = command.start { "run", NAME, "--grace=" .. grace, command.sh(COMMAND, directory) }
    local pid, started = job:expect "^ready (%d+) (%d+)"
    job:kill(name)
    wait.eventually(function() return not proc.state(pid) end, 5, "the end of the command")
    return job, tonumber(started)
  end

  for _, name in ipairs { "sigterm", "sigint", "sigquit" } do
    it("after " .. name:upper() .. ", keeps the lock until its whole group has ended", function()
      local job = start_and_signal(name, 300)
      assert_fails("timeout", clients.answered(client.lock, client, "a", { timeout = 1 }))
      assert(io.open(directory .. "/finish", "w")):close()
      assert.equal(3, (job:wait()))
      assert.matches("finished\n$", job.out.text)
      assert(assert(client:lock "a"):unlock())
    end)
  end

  it("after TERM, kills the other processes of its group when --grace is over", function()
    local job, pid = start_and_signal("sigterm", 0.5)
    assert.equal(3, (job:wait()))
    wait.eventually(function() return not proc.state(pid) end, 5, "the end of the process")
  end)

  it("after TERM, exits with 70 if the lock is lost before the end of its group", function()
    local job = start_and_signal("sigterm", 300)
    clients.take_away(client, "a")
    wait.eventually(function() return job:errors():find "was lost" end, 5, "the loss is noticed")
    assert(io.open(directory .. "/finish", "w")):close()
    assert.equal(70, (job:wait()))
  end)

  it("after HUP, which is for the command alone, leaves the other processes alone", function()
    local job, pid = start_and_signal("sighup", 0.5)
    etcd:await_keys(NAME .. "/", 0)
    assert.is_string(proc.state(pid))
    uv.kill(pid, "sigkill")
    assert.equal(3, (job:wait()))
  end)
end)

-- Regression 105. In a container without an init, nobody reaps the orphans of the command. Such
-- zombies counted as processes of its group, so after TERM etcdlock kept the lock until --grace was
-- over.
describe("etcdlock run", function()
  -- Runs the shell command line |line| below a pid 1 that reaps no orphans.
  local function below_pid_1(line, env)
    env.LINE = line
    return proc.talk(session.as_pid_1(uv.exepath(), "-e", "os.execute(os.getenv 'LINE')"), env)
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

  it("reaps the orphans of its command, and ends with the last process of its group", function()
    if below_pid_1("true", {}):wait() ~= 0 then pending "unshare needs rights" end
    local words, env = command.words()
    env.COMMAND = COMMAND
    local job = below_pid_1(([[%s %s run %s --grace=300 -- sh -c "$COMMAND"; echo status $?]])
      :format(words[1], words[2], prefix .. "a"), env)
    job:expect "^ready"
    local pid_1 = proc.children_of(job.pid)[1]
    local shell = proc.children_of(pid_1)[1]
    assert(uv.kill(proc.children_of(shell)[1], "sigterm"))
    job:expect "^status 3"
    job:wait()
  end)
end)

-- Regression 106. etcdlock got TERM, its command ended, and other processes of the group went on.
-- If the lock was lost then, the KILL for these processes came --grace seconds later than it
-- should. The end of --max-hold also delayed the KILL, and in addition changed the exit status.
describe("etcdlock run, after TERM and the end of its command,", function()
  local GRACE = 6 -- seconds

  -- A command that ends with the status 3 at TERM. The process that it has started goes on.
  local COMMAND = [[
    trap "exit 3" TERM
    sh -c 'trap "" TERM; echo ready; while :; do sleep 0.05; done' &
    while :; do wait; done
  ]]

  -- Runs COMMAND with the options |...| and sends TERM to etcdlock. Returns the job and the time of
  -- the TERM.
  local function start_and_terminate(...)
    local job = command.start { "run", NAME, "--grace=" .. GRACE, { ... }, command.sh(COMMAND) }
    job:expect "^ready"
    job:kill "sigterm"
    return job, wait.now()
  end

  it("kills the other processes no later if the lock is lost", function()
    local job, since = start_and_terminate()
    wait.sleep(GRACE / 2)
    clients.take_away(client, "a")
    assert.equal(70, (job:wait()))
    assert.is_true(wait.now() - since < GRACE * 1.4)
  end)

  it("kills the other processes no later if --max-hold is over", function()
    local job, since = start_and_terminate("--max-hold=" .. GRACE / 2)
    assert.equal(3, (job:wait()))
    assert.is_true(wait.now() - since < GRACE * 1.4)
  end)
end)
