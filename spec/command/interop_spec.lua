-- Tests etcdlock run together with `etcdctl lock`, and with a Go program that uses
-- concurrency.Mutex, on one lock name.

local NAME = prefix .. "a"
local ROUNDS = 3

local start_go = go_programs.build "mutex"
local no_go = not start_go and go_programs.MISSING
  or matrix.is_secure and "mutex.go knows neither TLS nor users"

-- The critical section, as shell code. mkdir fails if another process is in the section. If an
-- update of the counter is lost, its final value is too small.
local WORK = [[
  mkdir "$DIR/inside" || echo two-at-once
  read n < "$DIR/count"
  sleep 0.01
  echo $((n + 1)) > "$DIR/count"
  rmdir "$DIR/inside"
]]

-- Returns two shell commands that run WORK under the lock, one with etcdlock run and one with
-- etcdctl lock. |words|: the interpreter and the path of etcdlock.
local function ways(words)
  return ("%s %s run %s -- sh -c \"$WORK\""):format(words[1], words[2], NAME),
    ("etcdctl lock --ttl 5 %s -- sh -c \"$WORK\""):format(NAME)
end

-- Starts a shell that runs the command |way| ROUNDS times with the variables |env|.
local function start_shell(way, env)
  return proc.talk({ "sh", "-c", ("for i in $(seq %d); do %s || echo failed $?; done")
    :format(ROUNDS, way) }, env)
end

-- Calls start(words, env), which returns children that run WORK under the lock, each ROUNDS times.
-- Checks that no two of them run WORK at the same time. All of them are queued before the first one
-- gets the lock.
local function assert_one_at_a_time(start)
  local directory = temporary.directory()
  local words, env = command.words()
  env.DIR, env.WORK = directory, WORK
  env.ETCDCTL_ENDPOINTS = suite.endpoint()
  write_file(directory .. "/count", "0\n")
  local lock = assert(connect():lock "a")
  local children = start(words, env)
  etcd:await_keys(NAME .. "/", 1 + #children, 30)
  assert(lock:unlock())
  for _, child in ipairs(children) do
    assert.equal(0, (child:wait(60)))
    assert.same({ {}, "", "" }, { child.lines, child.partial, child:errors() })
  end
  assert.equal(#children * ROUNDS, tonumber(read_file(directory .. "/count")))
  assert.same({}, etcd:keys(NAME .. "/"))
end

describe("etcdlock run and etcdctl lock", function()
  it("never run their commands at the same time", function()
    assert_one_at_a_time(function(words, env)
      local ours, theirs = ways(words)
      return {
        start_shell(ours, env), start_shell(theirs, env), start_shell(ours, env),
        start_shell(theirs, env),
      }
    end)
  end)

  it("never run their commands while a Go program holds concurrency.Mutex", not no_go and function()
    assert_one_at_a_time(function(words, env)
      local ours, theirs = ways(words)
      local function go()
        return start_go(suite.endpoint(), NAME, tostring(ROUNDS),
          "env", "DIR=" .. env.DIR, "sh", "-c", WORK)
      end
      return {
        start_shell(ours, env), go(), start_shell(theirs, env), go(), start_shell(ours, env),
      }
    end)
  end or function() pending(no_go) end)
  it("set ETCD_LOCK_KEY and ETCD_LOCK_REV alike for the command", function()
    local _, env = command.words()
    env.ETCDCTL_ENDPOINTS = suite.endpoint()
    local SHOW = "echo ${ETCD_LOCK_KEY%/*} $((ETCD_LOCK_REV > 0))"
    local theirs = proc.run({ "etcdctl", "lock", "--ttl=5", NAME, "--", "sh", "-c", SHOW }, {
      env = env,
    })
    assert.equal(NAME .. " 1\n", theirs)
    assert.equal(theirs, (command.run { "run", NAME, "--", "sh", "-c", SHOW }))
  end)
end)
