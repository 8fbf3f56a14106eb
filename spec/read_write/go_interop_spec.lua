-- Tests that the RWMutex of etcd's Go recipes (experimental/recipes) and etcdlock's read and write
-- locks work together on one name.
-- Needs: one plain member.

client_options { ttl = 5 }
local ask, granted, assert_wait = clients.ask, clients.granted, clients.assert_wait
local NAME = prefix .. "a"

local start_go = go_programs.build "rwmutex"

local function start() return start_go(etcd:endpoint(), NAME) end

local function take(go, mode)
  go:send(mode)
  go:expect "^held"
end

-- Asserts that none of the Go programs |...| gets its lock within 0.3 s.
local function assert_go_waits(...)
  wait.sleep(0.3)
  for _, go in ipairs { ... } do assert.is_nil(go.lines[1]) end
end

local function unlock(go)
  go:send "unlock"
  go:expect "^unlocked"
end

local function told(text, story)
  it(text, start_go and story or function() pending(go_programs.MISSING) end)
end

describe("Go's RWMutex and etcdlock", function()
  told("hold one name for reading at the same time", function()
    local go, client = start(), connect()
    take(go, "read")
    local lock = assert(client:read_lock("a", { timeout = 5 }))
    local another = start()
    take(another, "read")
    unlock(go)
    unlock(another)
    assert.is_true(lock:unlock())
  end)

  told("exclude each other if one of them writes, in both orders", function()
    local go, client = start(), connect()
    for _, pair in ipairs { { "read", "write" }, { "write", "read" }, { "write", "write" } } do
      local theirs, ours = pair[1], pair[2]
      take(go, theirs)
      local asked = ask(client, ours, "a")
      etcd:await_keys(NAME, 2)
      assert_wait(asked)
      assert_fails("locked", client["try_" .. ours .. "_lock"](client, "a"))
      unlock(go)
      local lock = granted(asked)
      go:send(theirs)
      etcd:await_keys(NAME, 2)
      assert_go_waits(go)
      assert.is_true(lock:unlock())
      go:expect "^held"
      unlock(go)
    end
  end)

  told("are granted in the order in which they were queued", function()
    local first, second = start(), start()
    local reader = assert(connect():read_lock "a")
    first:send "write"
    etcd:await_keys(NAME, 2)
    local later = ask(connect { elsewhere = true }, "read", "a")
    etcd:await_keys(NAME, 3)
    second:send "read"
    etcd:await_keys(NAME, 4)
    assert_go_waits(first, second)
    assert_wait(later)
    assert.is_true(reader:unlock())
    first:expect "^held"
    assert_go_waits(second)
    assert_wait(later)
    unlock(first)
    second:expect "^held"
    assert.is_true(granted(later):unlock())
    unlock(second)
  end)

  told("keep Go writers waiting until a downgraded etcdlock hold is released", function()
    local waiting, later, client = start(), start(), connect()
    local writer = assert(client:write_lock "a")
    waiting:send "write"
    etcd:await_keys(NAME, 2)
    assert.is_true(writer:put(prefix .. "data", "v"))
    assert.is_true(writer:downgrade())
    assert_go_waits(waiting)
    later:send "write"
    etcd:await_keys(NAME, 4)
    assert_go_waits(waiting, later)
    assert.is_true(writer:check())
    assert.is_true(writer:unlock())
    waiting:expect "^held"
    unlock(waiting)
    later:expect "^held"
    unlock(later)
    etcd:del(prefix .. "data")
  end)
end)
