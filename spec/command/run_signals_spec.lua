-- Tests etcdlock run that starts with blocked signals, or that no shell can continue.

-- Returns whether |signal|, for example "sigterm", is pending for the process |pid|.
local function is_pending(pid, signal)
  local text = assert(read_file(("/proc/%d/status"):format(pid)))
  local digits = text:match "ShdPnd:%s*%x*(%x%x%x%x%x%x%x%x)"
  return math.floor(tonumber(digits, 16) / 2 ^ (uv.constants[signal:upper()] - 1)) % 2 == 1
end

-- Regression 101. If SIGCHLD was blocked when etcdlock started, etcdlock did not notice the end of
-- its command and never ended. Other blocked signals did not reach etcdlock either. It started its
-- command with no signal blocked, instead of with the mask that it had got itself.
describe("etcdlock run that starts with blocked signals", function()
  local count, name = 0, nil

  before_each(function()
    -- Each test has its own name, because a test that fails may leave its lock held.
    count = count + 1
    name = ("%d"):format(count)
  end)

  -- Starts `etcdlock run -- |...|` through `env` of the coreutils, with its option |block|.
  local function start(block, ...)
    return command.start_under({ "env", block }, { "run", prefix .. name, "--", ... })
  end

  it("ends with its command", function()
    assert.equal(3, (start("--block-signal=CHLD", "sh", "-c", "exit 3"):wait()))
  end)

  for _, signal in ipairs { "sigterm", "sigint", "sighup", "sigquit" } do
    it("ends a wait for the lock at " .. signal:upper(), function()
      clients.keep(assert(client:lock(name)))
      local job = start("--block-signal", "true")
      etcd:await_keys(prefix .. name .. "/", 2)
      job:kill(signal)
      assert.equal(128 + uv.constants[signal:upper()], (job:wait()))
    end)
  end

  it("passes signals on, and its command has them blocked", function()
    local job = start("--block-signal", "sh", "-c", "echo ready $$; read line; exit 3")
    local pid = tonumber((job:expect "^ready (%d+)"))
    for _, signal in ipairs { "sigterm", "sigint", "sighup", "sigquit", "sigusr1", "sigusr2" } do
      job:kill(signal)
      wait.eventually(function() return is_pending(pid, signal) end, 5, signal)
    end
    assert.equal(3, (job:go()))
  end)

  for _, block in ipairs { "--block-signal", "--block-signal=CHLD,WINCH,RTMIN" } do
    it("starts its command with the mask that it has got itself: " .. block, function()
      local look = { "grep", "SigBlk", "/proc/self/status" }
      local expected = proc.run { "env", block, look[1], look[2], look[3] }
      local job = start(block, look[1], look[2], look[3])
      assert.equal(0, (job:wait()))
      assert.equal(expected, job.out.text)
    end)
  end
end)

-- Regression 102. If no shell can continue etcdlock, etcdlock passes TSTP on to its command, and
-- continues the command after this stop. If the command ignored TSTP, etcdlock continued it at its
-- next stop instead. It did so even if another process had stopped the command, and even if a CONT
-- had come in between.
describe("etcdlock run that no shell could continue", function()
  local function is_stopped(pid) return proc.state(pid) == "T" end

  -- Starts etcdlock run |name|, whose command gets TSTP and does not stop. Returns the job, and the
  -- pids of etcdlock and of the command.
  local function start(name)
    local job, pid = command.start_leader { "run", prefix .. name, "--", uv.exepath(),
      "spec/support/programs/signals.lua", "sigtstp!", "sigcont", "sigusr1" }
    finally(function() uv.kill(pid, "sigkill") end) -- this ends the command, too, if it still runs
    local child = tonumber((job:expect "^ready (%d+)"))
    assert(uv.kill(pid, "sigtstp"))
    job:expect "^got sigtstp"
    return job, pid, child
  end

  -- Stops the command with the signal |name|. Asserts that it remains stopped until etcdlock gets
  -- CONT.
  local function assert_remains_stopped(job, pid, child, name)
    assert(uv.kill(child, name))
    wait.eventually(function() return is_stopped(child) end, 5, "the stop")
    assert(uv.kill(pid, "sigusr1")) -- etcdlock handles it after the stop
    wait.eventually(function() return is_pending(child, "sigusr1") end, 5, "USR1")
    assert.is_true(is_stopped(child))
    assert(uv.kill(pid, "sigcont"))
    job:expect "^got sigusr1"
    assert.equal(0, (job:go()))
  end

  it("leaves a command stopped that somebody else has stopped with STOP", function()
    local job, pid, child = start "a"
    assert_remains_stopped(job, pid, child, "sigstop")
  end)

  it("leaves a command stopped that gets TSTP from somebody else after a CONT", function()
    local job, pid, child = start "b"
    assert(uv.kill(pid, "sigcont"))
    job:expect "^got sigcont"
    assert_remains_stopped(job, pid, child, "sigtstp")
  end)
end)
