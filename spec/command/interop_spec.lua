-- etcdlock run beside `etcdctl lock`, which is Go's concurrency.Mutex, on one name.

local command = require "spec.support.programs.command"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local temporary = require "spec.support.harness.temporary"

local prefix, etcd = suite.prefix(), suite.etcd()
local NAME = prefix .. "a"
local ROUNDS = 3

after_each(function()
  proc.destroy_children()
  temporary.remove_all()
end)

-- Only one at a time can make a directory. Each adds to a number that it has read before.
local WORK = [[
  mkdir "$DIR/inside" || echo two-at-once
  read n < "$DIR/count"
  sleep 0.01
  echo $((n + 1)) > "$DIR/count"
  rmdir "$DIR/inside"
]]

describe("etcdlock run and etcdctl lock", function()
  it("never run at once", function()
    local directory = temporary.directory()
    local words, env = command.words()
    env.DIR, env.WORK, env.ETCDCTL_API = directory, WORK, "3"
    env.ETCDCTL_ENDPOINTS = suite.endpoint()
    local file = assert(io.open(directory .. "/count", "w"))
    file:write "0\n"
    file:close()
    local ways, children = {
      ("%s %s run %s -- sh -c \"$WORK\""):format(words[1], words[2], NAME),
      ("etcdctl lock --ttl 5 %s -- sh -c \"$WORK\""):format(NAME),
    }, {}
    for i = 1, 4 do
      children[i] = proc.talk({ "sh", "-c", ("for i in $(seq %d); do %s || echo failed $?; done")
        :format(ROUNDS, ways[i % 2 + 1]) }, env)
    end
    for _, child in ipairs(children) do
      assert.equal(0, (child:wait(60)))
      assert.same({ "", "" }, { child.out.text, child:errors() })
    end
    file = assert(io.open(directory .. "/count"))
    assert.equal(4 * ROUNDS, tonumber(file:read "*a"))
    file:close()
    assert.same({}, etcd:keys(NAME .. "/"))
  end)

  it("give a command the same words about its lock", function()
    local _, env = command.words()
    env.ETCDCTL_API, env.ETCDCTL_ENDPOINTS = "3", suite.endpoint()
    local SHOW = "echo ${ETCD_LOCK_KEY%/*} $((ETCD_LOCK_REV > 0))"
    local theirs = proc.run({ "etcdctl", "lock", "--ttl=5", NAME, "--", "sh", "-c", SHOW }, {
      env = env,
    })
    assert.equal(NAME .. " 1\n", theirs)
    assert.equal(theirs, (command.run { "run", NAME, "--", "sh", "-c", SHOW }))
  end)
end)
