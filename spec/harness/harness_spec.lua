-- Tests the test harness: its etcd servers, its child processes and its check for leaks.
-- Needs: one plain member.

local function exists(pid)
  return uv.kill(pid, 0) == 0
end

describe("the harness", function()
  it("starts and stops an etcd, and leaves no process, file or descriptor", function()
    local before = leaks.snapshot()
    local etcd = Etcd.start()
    local pid = etcd:pid()
    etcd:put("a/1", "one")
    etcd:put("b", "two")
    assert.same({ "a/1" }, etcd:keys "a/")
    assert.equal("two", (etcd:get "b"))
    assert.equal(2, select(2, etcd:get "a/1"))
    etcd:del "a/1"
    assert.is_nil(etcd:get "a/1")
    etcd:stop()
    assert.is_false(exists(pid))
    assert.is_nil(uv.fs_stat(etcd.dir))
    leaks.assert_none_left(before)
  end)

  it("lists leases and revokes them", function()
    local etcd = Etcd.start()
    local id = etcd:grant(60)
    assert.same({ id }, etcd:leases())
    etcd:revoke(id)
    assert.same({}, etcd:leases())
  end)

  it("keeps the data of a member that is killed and started again", function()
    local etcd = Etcd.start()
    local endpoint = etcd:endpoint()
    etcd:put("k", "v")
    etcd:kill()
    etcd:restart()
    assert.equal(endpoint, etcd:endpoint())
    assert.equal("v", (etcd:get "k"))
  end)

  it("runs a cluster that still works while one of three members is paused", function()
    local etcd = Etcd.start { members = 3 }
    etcd:pause(1)
    wait.eventually(function() return pcall(etcd.put, etcd, "k", "v") end, 20,
      "a leader among the others")
    etcd:resume(1)
    assert.equal("v", (etcd:get "k"))
  end)

  it("exchanges lines with a Lua child process, and returns its exit status", function()
    local child = proc.lua([[
      print("hello " .. ...)
      for line in io.lines() do print(line:upper()) end
      os.exit(3)
    ]], "world")
    assert.equal("world", child:expect "^hello (.*)")
    child:send "abc"
    child:expect "^ABC$"
    assert.same({ 3, 0 }, { child:wait() })
  end)

  it("reports what a child has printed if an expected line does not come", function()
    local child = proc.lua [[ print "one" error "two" ]]
    local ok, failure = pcall(child.expect, child, "three")
    assert.is_false(ok)
    assert.matches("one", failure)
    assert.matches("two", failure)
  end)

  it("stops its etcd when the process that has started it is killed", function()
    local child = proc.lua [[
      local etcd = require("spec.support.servers.etcd").start()
      print("pid " .. etcd:pid() .. " " .. etcd.dir)
      io.read()
    ]]
    local pid, dir = child:expect("^pid (%d+) (.*)", 30)
    assert.is_true(exists(tonumber(pid)))
    child:kill "sigkill"
    assert.same({ 0, 9 }, { child:wait() })
    wait.eventually(function() return not exists(tonumber(pid)) end, 5,
      "end of the server")
    proc.run { "rm", "-rf", dir }
  end)

  it("reports a descriptor that is not closed", function()
    local before = leaks.snapshot()
    local file = assert(io.open "/dev/null")
    local ok, failure = pcall(leaks.assert_none_left, before, nil, nil, 0)
    file:close()
    assert.is_false(ok)
    assert.matches("descriptors: %d+ %(/dev/null%)", failure)
  end)
end)
