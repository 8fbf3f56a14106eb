-- Tests etcdlock run: its options, its exit status, the signals that it passes on, and the end of
-- the command when the lock is lost.

client_options { ttl = 10 }
local NAME = prefix .. "a"

local function run(...) return command.run { "run", ... } end
local function status_of(...) return command.status { "run", ... } end
local function start(...) return command.start { "run", ... } end
local sh = command.sh

-- Shell code that prints "ready PID", then "got-NAME" for each signal, and ends when it reads a
-- line.
local LISTENS = [[
  for s in TERM INT HUP QUIT USR1 USR2; do trap "echo got-$s" $s; done
  echo ready $$
  while ! read line; do :; done
]]

describe("etcdlock run", function()
  it("runs the command while it holds the lock, and exits with the command's status", function()
    local job = start(NAME, sh "echo held; read line; exit 3")
    job:expect "^held"
    assert.equal(1, #etcd:keys(NAME .. "/"))
    assert.equal(3, (job:go()))
    assert.same({}, etcd:keys(NAME .. "/"))
    local out, status, err = run(NAME, sh "echo out; echo err >&2")
    assert.same({ "out\n", 0, "err\n" }, { out, status, err })
  end)

  it("passes all words after -- to the command unchanged", function()
    assert.equal("a b|--ttl|--|\n", (run(NAME, sh([[printf '%s|' "$@"; echo]], "sh", "a b",
      "--ttl", "--"))))
  end)

  it("begins the command with the first word after NAME that is no option, without --", function()
    for _, case in ipairs {
      { { NAME, "printf", "%s|", "a", "--ttl", "--", "-E" }, "a|--ttl|--|-E|" },
      { { "--ttl", "5", NAME, "--value=x", "--value", "y", "echo", "-q" }, "-q\n" },
      { { "-qE", "9", NAME, "-E9", "--timeout", "5s", "-q", "echo", "9" }, "9\n" },
      { { "--value", "-5", NAME, "--shared", "--insecure-transport", "echo", "a" }, "a\n" },
      { { NAME, "echo", "--", "a" }, "-- a\n" },
    } do
      local out, status, err = run(case[1])
      assert.same({ case[2], 0, "" }, { out, status, err })
    end
    local out = command.run { "--prefix", prefix, "run", "a", "sh", "-c", "echo $ETCD_LOCK_KEY" }
    assert.equal(NAME, out:match "^(.*)/%x+\n$")
  end)

  it("takes durations with a unit", function()
    for _, value in ipairs { "5", "5s", "0.1m", "0.01h", "0.001d", ".5s" } do
      assert.equal(0, status_of(NAME, "--timeout", value, "--grace=1s", "true"), value)
    end
    clients.keep(assert(client:lock "a"))
    local _, _, err = run(NAME, "--timeout=0.01m", "true")
    assert.matches("was not free within 0.6 s", err, 1, true)
  end)

  it("gives the command /dev/null for each standard stream that is closed", function()
    local file = temporary.directory() .. "/streams"
    local job = command.start_under({ "sh", "-c", '"$@" <&- >&- 2>&-', "sh" }, { "run", NAME, sh([[
      for n in 0 1 2; do readlink /proc/$$/fd/$n; done | cat >"$0"
      exit 3
    ]], file) })
    assert.equal(3, (job:wait()))
    assert.equal(("/dev/null\n"):rep(3), read_file(file))
  end)

  it("sets ETCD_LOCK_KEY, ETCD_LOCK_REV and ETCDLOCK_TOKEN for the command", function()
    local before = etcd:revision()
    local out = command.run({ "run", NAME,
      sh "echo $ETCD_LOCK_KEY $ETCD_LOCK_REV $ETCDLOCK_TOKEN $OF_OURS" }, { OF_OURS = "kept" })
    local key, rev, token = out:match "^(%S+) (%d+) (%d+) kept\n$"
    assert.equal(NAME, key:match "^(.*)/%x+$")
    assert.equal(before + 1, tonumber(token))
    assert.is_true(tonumber(rev) >= tonumber(token))
    -- If etcdlock has waited, ETCD_LOCK_REV is at least the revision of each write before the
    -- grant.
    local lock = assert(client:lock "a")
    local job = start(NAME, sh "echo $ETCD_LOCK_REV $ETCDLOCK_TOKEN")
    etcd:await_keys(NAME .. "/", 2)
    assert(lock:put(prefix .. "data", "1"))
    local written = etcd:revision()
    assert(lock:unlock())
    rev, token = job:expect "^(%d+) (%d+)$"
    assert.is_true(tonumber(rev) > written)
    assert.is_true(tonumber(token) < written)
    job:wait()
    etcd:del(prefix .. "data")
  end)

  it("exits with 128 + the number of the signal that has ended the command", function()
    assert.equal(128 + 9, status_of(NAME, sh "kill -9 $$"))
    assert.equal(128 + 15, status_of(NAME, sh "kill -TERM $$"))
    assert.same({}, etcd:keys(NAME .. "/"))
  end)

  it("exits with 126 or 127, without a wait for the lock, if the command cannot be run", function()
    clients.keep(assert(client:lock "a"))
    local directory = temporary.directory()
    local out, status, err = run(NAME, "--", "no-such-command")
    assert.same({ "", 127 }, { out, status })
    assert.equal("etcdlock: no-such-command: command not found\n", err)
    assert.equal(127, status_of(NAME, "--", directory .. "/nothing"))
    assert.equal(126, status_of(NAME, "--", directory))
    assert.equal(126, status_of(NAME, "--", "./README.md"))
    assert.equal(1, #etcd:keys(NAME .. "/"))
  end)

  it("exits with 75, or the status of -E, if the lock is not free within --timeout", function()
    clients.keep(assert(client:lock "a"))
    local out, status, err
    wait.eventually(function()
      out, status, err = run(NAME, "--timeout", "1", sh "echo ran")
      return status ~= 69, err
    end, 5, "an answer of etcd within 1 s")
    assert.same({ "", 75 }, { out, status })
    assert.matches('^etcdlock: lock ".*a" was not free within 1 s; holder[^:]*: pid %d', err)
    assert.equal(75, status_of(NAME, "--timeout=0", "--", "true"))
    assert.equal(9, status_of("--timeout=0", "-E", "9", NAME, "--", "true"))
    etcd:await_keys(NAME .. "/", 1)
  end)

  it("prints nothing if the lock is not free, with -E 0 or --quiet", function()
    clients.keep(assert(client:lock "a"))
    local function assert_silent(status, ...)
      local out, actual, err = run(NAME, "--timeout=0", ...)
      assert.same({ "", status, "" }, { out, actual, err })
    end
    assert_silent(0, "-E", "0", sh "echo ran")
    assert_silent(0, "-E0", sh "echo ran")
    assert_silent(75, "--quiet", sh "echo ran")
    assert_silent(9, "-q", "-E", "9", sh "echo ran")
  end)

  it("prints errors, and those of the command, with --quiet", function()
    local _, status, err = run("--endpoints", "127.0.0.1:1", NAME, "-q", "-E", "0", "--timeout",
      "0.5", "--", "true")
    assert.equal(69, status)
    assert.matches("^etcdlock: .*refused\n$", err)
    assert.equal("theirs\n", (select(3, run(NAME, "-q", sh "echo theirs >&2"))))
    local job = start(NAME, "-q", sh "echo held; read line; sleep 60")
    job:expect "^held"
    clients.take_away(client, "a")
    assert.equal(70, (job:wait()))
    assert.matches("was lost", job:errors(), 1, true)
  end)

  it("says after 5 s that the wait ends because etcd has never answered", function()
    local _, status, err = run("--endpoints", "127.0.0.1:1", NAME, "true")
    assert.equal(69, status)
    assert.matches("was not acquired within 5 s: .*Connection refused %(a wait without a timeout"
      .. " ends if etcd has never answered%)\n$", err)
    err = select(3, run("--endpoints", "127.0.0.1:1", NAME, "--timeout=0.2", "true"))
    assert.matches("was not acquired within 0.2 s: .*Connection refused\n$", err)
  end)

  it("runs beside a read hold with --shared, and exits with 75 without it", function()
    local lock = assert(client:read_lock "a")
    assert.equal(75, status_of(NAME, "--timeout=0", "--", "true"))
    assert.equal(0, status_of(NAME, "--timeout=0", "--shared", "--", "true"))
    assert(lock:unlock())
  end)

  it("takes one of n permits with --permits, also beside holders with another n", function()
    local semaphore = assert(client:semaphore("a", 2))
    local function assert_exits(status, permits)
      local _, actual, err = run(NAME, "--timeout=0", permits, "--", "true")
      assert.equal(status, actual, err)
    end
    clients.keep(assert(semaphore:lock()))
    assert_exits(0, "--permits=2")
    -- Regression 274. Nothing told that others give another number of permits.
    local _, _, said = run(NAME, "--permits=3", "--", "true")
    assert.matches('^etcdlock: semaphore ".*a": the number of permits is 3 in this client, and 2 '
      .. "in pid %d+ on [^\n]*\n$", said)
    assert.equal("", (select(3, run(NAME, "--permits=3", "--quiet", "--", "true"))))
    assert_exits(75, "--permits=1")
    clients.keep(assert(semaphore:lock()))
    assert_exits(75, "--permits=2")
    assert_exits(0, "--permits=3")
  end)

  it("publishes --value and its pid in its queue entry", function()
    for _, value in ipairs { "nightly", "-5" } do
      local job = start(NAME, "--value", value, sh "echo held; read line")
      job:expect "^held"
      assert.equal(value, connect():queue "a"[1].value)
      assert.equal(job.pid, connect():queue "a"[1].pid)
      job:wait()
    end
  end)

  it("reports when the lock is free at the latest if etcd confirms no release", function()
    local job = start(NAME, "--ttl=10", sh "echo held; read line; exit 5")
    local quiet = start(NAME .. "b", "--ttl=10", "-q", sh "echo held; read line; exit 5")
    job:expect "^held"
    quiet:expect "^held"
    etcd:pause()
    job:send "go"
    quiet:send "go"
    assert.equal(5, (job:wait()))
    assert.equal('etcdlock: lock "' .. NAME .. '": etcd has not confirmed the release; the lock is'
      .. " free after its TTL and lock delay at the latest\n", job:errors())
    assert.same({ 5, 0 }, { quiet:wait() })
    assert.equal("", quiet:errors())
    etcd:resume()
    etcd:revoke_all()
    etcd:await_keys(NAME, 0)
  end)
end)

describe("a signal to etcdlock run", function()
  it("is passed on to the command if it is TERM, INT, HUP, QUIT, USR1 or USR2", function()
    local job = start(NAME, sh(LISTENS))
    job:expect "^ready"
    for _, name in ipairs { "TERM", "INT", "HUP", "QUIT", "USR1", "USR2" } do
      job:kill("sig" .. name:lower())
      job:expect("^got%-" .. name .. "$")
    end
    assert.equal(0, (job:go()))
  end)

  it("that a shell ignores for a job in the background is ignored by both processes", function()
    local lock = assert(client:lock "a")
    local job = command.start_under(
      { "sh", "-c", "trap '' HUP INT QUIT TSTP; exec \"$@\"", "sh" },
      { "run", NAME, sh "grep SigIgn /proc/self/status" })
    etcd:await_keys(NAME .. "/", 2)
    for _, signal in ipairs { "sighup", "sigint", "sigquit", "sigtstp" } do job:kill(signal) end
    assert(lock:unlock())
    local ignored = tonumber((job:expect "^SigIgn:%s*(%x+)"), 16)
    for _, name in ipairs { "SIGHUP", "SIGINT", "SIGQUIT", "SIGTSTP" } do
      assert.equal(1, math.floor(ignored / 2 ^ (uv.constants[name] - 1)) % 2, name)
    end
    assert.equal(0, (job:wait()))
  end)

  it("ends a wait for the lock with exit status 128 + n, and removes the entry", function()
    local lock = assert(client:lock "a")
    for name, number in pairs { term = 15, int = 2, hup = 1, quit = 3 } do
      local job = start(NAME, sh "echo ran")
      etcd:await_keys(NAME .. "/", 2)
      job:kill("sig" .. name)
      assert.equal(128 + number, (job:wait()))
      assert.same({ "", "" }, { job.out.text, job:errors() })
      etcd:await_keys(NAME .. "/", 1)
    end
    assert.is_true(lock:check())
  end)

  it("is ignored during a wait for the lock if it is USR1 or USR2", function()
    local lock = assert(connect():lock "a")
    local job = start(NAME, sh "echo ran")
    etcd:await_keys(NAME .. "/", 2)
    job:kill "sigusr1"
    job:kill "sigusr2"
    assert(lock:unlock())
    job:expect "^ran$"
    assert.equal(0, (job:wait()))
  end)

  it("is passed on to the command, too, if it is TSTP or CONT", function()
    local job = start(NAME, sh [[
      trap 'echo got-TSTP' TSTP
      trap 'echo got-CONT' CONT
      echo ready
      while ! read line; do :; done
    ]])
    job:expect "^ready"
    job:kill "sigtstp"
    job:expect "^got%-TSTP"
    -- If a shell can continue etcdlock, etcdlock stops itself after it has passed TSTP on. A CONT
    -- that arrives before this stop is lost.
    wait.eventually(function()
      job:kill "sigcont"
      return job.out.text:find "\ngot%-CONT\n"
    end, 5, "the signal to go on")
    assert.equal(0, (job:go()))
  end)
end)

describe("etcdlock run that has lost its lock", function()
  local function take_away() clients.take_away(client, "a") end

  it("ends the command with TERM, reports the loss and exits with 70", function()
    local job = start(NAME, sh [[
      trap 'echo got-TERM; exit 0' TERM
      echo ready
      while :; do sleep 0.05; done
    ]])
    job:expect "^ready"
    take_away()
    job:expect "^got%-TERM"
    assert.equal(70, (job:wait()))
    assert.matches('etcdlock: lock ".*a" was lost: the key was deleted, as by \'etcdlock break\'; '
      .. "sent TERM to sh\n", job:errors())
  end)

  it("ends a command that is stopped", function()
    local job = start(NAME, "--grace", "60", sh [[
      trap 'echo got-TERM; exit' TERM
      echo ready $$
      kill -STOP $$
      while :; do sleep 0.05; done
    ]])
    local pid = tonumber((job:expect "^ready (%d+)"))
    wait.eventually(function() return proc.state(pid) == "T" end, 5, "it is stopped")
    take_away()
    job:expect "^got%-TERM"
    assert.equal(70, (job:wait()))
  end)

  it("exits with 70 even if the command exits with 0", function()
    local job = start(NAME, sh "trap '' TERM; echo ready; read line; exit 0")
    job:expect "^ready"
    take_away()
    wait.eventually(function() return job:errors():find "was lost" end, 5, "the loss")
    assert.equal(70, (job:go()))
  end)

  -- Starts `etcdlock run` with the shell code |script|. Its standard error is a pipe to the shell
  -- code |reader|. In |reader|, descriptor 4 is the input that the test sends.
  local function start_piped(reader, script)
    return command.start_under({ "sh", "-c", ([[
      exec 3>&1 4<&0
      { "$@" 2>&1 >&3 4<&-; echo status $? >&3; } | { %s; }
    ]]):format(reader), "sh" }, { "run", NAME, sh(script) })
  end

  it("ends the command although the pipe of its standard error is full", function()
    local job = start_piped("read line <&4; cat >&2", [[
      trap 'echo got-TERM; exit' TERM
      yes >&2 &
      until grep -q "^State:.S" /proc/$!/status; do sleep 0.05; done
      echo ready
      wait
    ]])
    job:expect "^ready"
    take_away()
    job:expect "^got%-TERM"
    job:send "go"
    job:expect "^status 70$"
    wait.eventually(function() return job:errors():find "was lost" end, 5, "the loss")
    job:wait()
  end)

  it("ends the command with TERM although its standard error has no reader", function()
    local job = start_piped("exec 0<&- 3>&-; echo gone >&2; read line <&4", [[
      trap 'sleep 0.2; echo got-TERM; exit' TERM
      sleep 60 &
      echo ready
      wait
    ]])
    job:expect "^ready"
    wait.eventually(function() return job:errors():find "gone" end, 5, "the reader's end")
    take_away()
    job:expect "^got%-TERM"
    job:expect "^status 70$"
    job:send "go"
    job:wait()
  end)
end)

it("etcdlock run takes its command with it when SIGKILL ends it, and its key expires", function()
  local job = start(NAME, "--ttl=2", sh "echo ready $$; read line; sleep 60")
  local pid = tonumber((job:expect "^ready (%d+)"))
  job:kill "sigkill"
  wait.eventually(function() return not proc.state(pid) end, 5, "the end of its command")
  job:destroy()
  etcd:await_keys(NAME .. "/", 0, 10)
end)

describe("etcdlock run --at-least", function()
  -- Starts a run that keeps the lock after its command has ended with status 3.
  local function start_kept()
    local job = start(NAME, "--at-least=600", sh "echo done; exit 3")
    job:expect "^done"
    wait.eventually(function()
      return #proc.children_of(job.pid) == 0
    end, 5, "the end of the command")
    return job
  end

  it("keeps the lock after the command has ended, and exits with the command's status", function()
    local from = wait.now()
    local job = start(NAME, "--at-least=1.5", sh "echo done; exit 3")
    assert.equal(3, (job:wait()))
    assert.is_true(wait.now() - from >= 1.5)
    assert.same({}, etcd:keys(NAME .. "/"))
  end)

  it("does not keep the lock for longer if the command has run for longer", function()
    assert.equal(0, status_of(NAME, "--at-least=0.01", sh "sleep 0.1"))
    assert.same({}, etcd:keys(NAME .. "/"))
  end)

  for _, name in ipairs { "term", "int", "hup", "quit" } do
    it("releases the lock, and keeps the exit status, after SIG" .. name:upper(), function()
      local job = start_kept()
      assert.equal(1, #etcd:keys(NAME .. "/"))
      job:kill("sig" .. name)
      assert.equal(3, (job:wait()))
      assert.same({}, etcd:keys(NAME .. "/"))
    end)
  end

  it("does not keep the lock if TERM has ended the command", function()
    local job = start(NAME, "--at-least=60", sh "trap 'exit 3' TERM; sleep 60 & echo ready; wait")
    job:expect "^ready"
    job:kill "sigterm"
    assert.equal(3, (job:wait()))
  end)

  it("ends when the lock is lost, reports it and keeps the exit status", function()
    local job = start_kept()
    clients.take_away(client, "a")
    assert.equal(3, (job:wait()))
    assert.matches("was lost", job:errors(), 1, true)
  end)
end)
