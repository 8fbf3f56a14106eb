-- Go's own read/write lock (etcd's contrib/recipes) and ours on one name.

local clients = require "spec.support.harness.clients"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local PROGRAM = "build/spec/go_rwmutex"
local GOPATH = "/usr/share/gocode" -- Debian's packages

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = suite.endpoints(), prefix = prefix, ttl = 5 }
local NAME = prefix .. "a"

local function build()
  local _, code = proc.run { "sh", "-c", "command -v go && test -d " .. GOPATH
    .. "/src/go.etcd.io/etcd/contrib/recipes" }
  if code ~= 0 then return false end
  local _, failed, why = proc.run({
    "go", "build", "-o", PROGRAM, "spec/support/go/rwmutex.go",
  }, { env = { GO111MODULE = "off", GOPATH = GOPATH }, seconds = 300 })
  assert.equal(0, failed, why)
  return true
end

local has_go = build()

after_each(function()
  clients.close_all()
  proc.destroy_children()
end)

local function start()
  local go = proc.talk { PROGRAM, (etcd:endpoint()), NAME }
  go:expect "^ready"
  return go
end

local function assert_waits(...)
  wait.sleep(0.3)
  for _, go in ipairs { ... } do assert.is_nil(go.lines[1]) end
end

local function unlock(go)
  go:send "unlock"
  go:expect "^unlocked"
end

local function told(text, story)
  if has_go then
    it(text, story)
  else
    it(text, function() pending "Go isn't here, with etcd's client for it: make bench" end)
  end
end

describe("Go's read/write lock and ours", function()
  told("read together", function()
    local go, client = start(), connect()
    go:send "read"
    go:expect "^held"
    local lock = assert(client:read_lock("a", { timeout = 5 }))
    local another = start()
    another:send "read"
    another:expect "^held"
    unlock(go)
    unlock(another)
    assert.is_true(lock:unlock())
  end)

  told("exclude each other, whoever came first", function()
    local go, client = start(), connect()
    for _, pair in ipairs { { "read", "write" }, { "write", "read" }, { "write", "write" } } do
      local theirs, ours = pair[1], pair[2]
      go:send(theirs)
      go:expect "^held"
      local asked = assert(client[ours .. "_lock_async"](client, "a"))
      etcd:await_keys(NAME, 2)
      wait.sleep(0.3)
      assert.is_false(asked:step())
      local _, _, code = client["try_" .. ours .. "_lock"](client, "a", { owner = "other" })
      assert.equal("locked", code)
      unlock(go)
      local lock
      wait.eventually(function() lock = asked:step() return lock end, 5, "ours")
      go:send(theirs)
      etcd:await_keys(NAME, 2)
      assert_waits(go)
      assert.is_true(lock:unlock())
      go:expect "^held"
      unlock(go)
    end
  end)

  told("keep the order in which they asked", function()
    local first, second = start(), start()
    local reader = assert(connect():read_lock "a")
    first:send "write"
    etcd:await_keys(NAME, 2)
    local later = assert(connect({ elsewhere = true }):read_lock_async "a")
    etcd:await_keys(NAME, 3)
    second:send "read"
    etcd:await_keys(NAME, 4)
    assert_waits(first, second)
    assert.is_false(later:step())
    assert.is_true(reader:unlock())
    first:expect "^held"
    assert_waits(second)
    assert.is_false(later:step())
    unlock(first)
    second:expect "^held"
    wait.eventually(function() return later:step() end, 5, "ours")
    unlock(second)
  end)

  told("know a writer of ours who only reads on: no writer of Go's comes in", function()
    local waiting, later, client = start(), start(), connect()
    local writer = assert(client:write_lock "a")
    waiting:send "write"
    etcd:await_keys(NAME, 2)
    assert.is_true(writer:downgrade())
    assert.is_true(writer:put(prefix .. "data", "v"))
    assert_waits(waiting)
    later:send "write"
    etcd:await_keys(NAME, 4)
    assert_waits(waiting, later)
    assert.is_true(writer:check())
    assert.is_true(writer:unlock())
    waiting:expect "^held"
    unlock(waiting)
    later:expect "^held"
    unlock(later)
    etcd:del(prefix .. "data")
  end)
end)
