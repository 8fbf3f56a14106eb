-- Tests that the command of a holder that has lost its lock ends before the command of the next
-- holder starts.
-- Needs: one plain member.

-- Regression 078. `etcdlock run` and `etcdlock elect` sent KILL --grace seconds after the loss of
-- the lock, but the next holder's command started about a second after the loss. Both commands ran
-- for up to --grace seconds. The same happened after --max-hold.

-- Seconds.
local TTL, GRACE = 2, 2

-- Shell code that ignores TERM. It prints "alone" if no other copy of it runs, and else "overlap".
local COMMAND = [[
  exec 9>"$0"
  if flock -n 9; then echo alone $$; else echo overlap; fi
  trap 'echo got-TERM' TERM
  while :; do sleep 0.05 9<&-; done
]]

describe("the command of a holder that has lost its lock", function()
  local etcd, proxy, file

  setup(function() etcd = Etcd.start { tls = false } end)
  before_each(function()
    proxy = Swallow.start(etcd:endpoint())
    file = temporary.directory() .. "/alone"
  end)

  local function start(subcommand, endpoint, ...)
    return command.start {
      subcommand, "a", subcommand == "elect" and "value" or {}, "--endpoints", endpoint,
      "--ttl=" .. TTL, "--grace=" .. GRACE, { ... }, command.sh(COMMAND, file),
    }
  end

  -- Starts a holder with the options |...|, which reaches etcd through the proxy, and then a
  -- waiter. Calls |part|(holder), which makes the holder lose its lock. Asserts that the waiter's
  -- command starts only when the holder's command has ended. Returns the holder, which has ended.
  local function assert_alone(part, subcommand, ...)
    local holder = start(subcommand, proxy:endpoint(), ...)
    assert.matches("^alone", holder:expect "^%a+.*")
    local waiter = start(subcommand, etcd:endpoint(), ...)
    etcd:await_keys("a/", 2)
    part(holder)
    assert.matches("^alone", waiter:expect("^%a+.*", 20))
    assert.equal(70, (holder:wait()))
    return holder
  end

  for _, subcommand in ipairs { "run", "elect" } do
    it("is killed before the next holder's starts if the holder is cut off: " .. subcommand,
      function()
        assert_alone(function() proxy:swallow() end, subcommand):expect "^got%-TERM"
      end)
  end

  for option in ("--shared --permits=1"):gmatch "%S+" do
    it("is killed before the next holder's starts with " .. option, function()
      local holder = start("run", proxy:endpoint(), option)
      assert.matches("^alone", holder:expect "^%a+.*")
      local waiter = start("run", etcd:endpoint(), option ~= "--shared" and option or nil)
      etcd:await_keys("a/", 2)
      proxy:swallow()
      assert.matches("^alone", waiter:expect("^%a+.*", 20))
    end)
  end

  it("is killed before the next holder's starts if etcd stood still", function()
    assert_alone(function(holder)
      etcd:pause()
      finally(function() etcd:resume() end)
      wait.eventually(function() return holder:errors():find "was lost" end, 5, "the loss")
      etcd:resume()
    end, "run"):expect "^got%-TERM"
  end)

  it("is killed before the next holder's starts if etcdlock stood still", function()
    -- TERM comes so late that KILL may follow at once.
    assert_alone(function(holder)
      holder:kill "sigstop"
      wait.sleep(TTL + 1)
      holder:kill "sigcont"
    end, "run")
  end)

  it("is killed before the next holder's starts if --max-hold is over", function()
    assert_alone(function() end, "run", "--max-hold=1"):expect "^got%-TERM"
  end)
end)

describe("etcdlock run", function()
  -- See regression 312: the command exited if its lease ended during the wait.
  it("waits again after an outage for longer than the TTL, and says so", function()
    local etcd = Etcd.start { tls = false }
    local proxy = Swallow.start(etcd:endpoint())
    local holder = command.start { "run", "a", "--endpoints", etcd:endpoint(),
      command.sh "echo held; read line" }
    holder:expect "^held"
    local waiter = command.start { "run", "a", "--endpoints", proxy:endpoint(), "--ttl=2",
      "--lock-delay=0", "--", "echo", "runs" }
    etcd:await_keys("a/", 2)
    proxy:swallow()
    etcd:await_keys("a/", 1)
    proxy:forward()
    etcd:await_keys("a/", 2)
    wait.eventually(function()
      return waiter:errors():find('lock "a": the client\'s lease has ended during the wait; it '
        .. "waits again, at the end of the queue", 1, true)
    end, 3, "the message")
    assert.equal(0, (holder:go()))
    waiter:expect "^runs"
    assert.equal(0, (waiter:wait()))
  end)

  it("exits with 70 if its key is deleted during the wait", function()
    local lock = clients.keep(assert(client:lock "a"))
    local waiter = command.start { "run", prefix .. "a", "true" }
    etcd:await_keys(prefix .. "a/", 2)
    etcd:del(client:queue "a"[2].key)
    assert.is_true(lock:unlock())
    assert.equal(70, (waiter:wait()))
    assert.matches("during the wait; start etcdlock again\n$", waiter:errors())
  end)

  -- Regression 313. It printed nothing while it waited for an etcd that was unreachable.
  it("prints while it waits why etcd is unreachable, once, and nothing with --quiet", function()
    local options = { "--endpoints", "127.0.0.1:" .. port.free(), "--timeout", 4, "true" }
    local quiet = command.start { "run", "a", "-q", options }
    local _, status, err = command.run { "run", "a", options }
    assert.equal(69, status)
    assert.matches('^etcdlock: lock "a": etcd 127.0.0.1:%d+: Connection refused; waiting\n'
      .. 'etcdlock: lock "a" was not acquired within 4 s: .*\n$', err)
    assert.equal(69, (quiet:wait()))
    assert.matches('^etcdlock: lock "a" was not acquired within 4 s: [^\n]*\n$', quiet:errors())
  end)

  it("leaves no lock delay behind when its command ends by itself", function()
    local etcd = suite.etcd()
    local name = prefix .. "a"
    assert.equal(0, command.status { "run", name, "--lock-delay=300", "--", "true" })
    assert.same({}, etcd:keys(name .. "/"))
    assert.equal(0, command.status { "run", name, "--timeout=0", "--", "true" })
  end)

  it("accepts a --grace that no lock delay can cover if --lock-delay is given", function()
    assert.equal(0, command.status { "run", prefix .. "a", "--grace=301", "--lock-delay=300", "--",
      "true" })
  end)
end)
