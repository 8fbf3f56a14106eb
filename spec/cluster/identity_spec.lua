-- Another cluster, a wiped one, one of yesterday: who held a lock there learns
-- that it is over, and never goes on with what answers now.

local Etcd = require "spec.support.servers.etcd"
local proc = require "spec.support.programs.proc"
local remote = require "spec.support.programs.remote"
local suite = require "spec.support.harness.suite"

local prefix = suite.prefix()
local ask = remote.ask
local LOST = "local reason, _, code = lock:wait_lost(15) return reason or code"

local function start(endpoints, count)
  -- Long enough that no lease ends of itself while an etcd is exchanged.
  return remote.start({ endpoints = endpoints, prefix = prefix, ttl = 15 }, count)
end

-- An etcd for a test, which may do with it what it likes.
local function single()
  local etcd = Etcd.start()
  finally(function()
    proc.destroy_children()
    etcd:stop()
  end)
  return etcd
end

-- Revisions that another store doesn't have.
local function make_history(child)
  assert.same({ "true" }, ask(child, [[
    for i = 1, 20 do assert(client:lock('history')):unlock() end
    return true
  ]]))
end

-- A client that holds, late in the history of |etcd|; its token.
local function late_holder(etcd)
  local child = start(etcd:endpoint())
  make_history(child)
  return child, remote.take(child, "late")
end

-- |child| is told that its hold has ended. What it notices first is a matter of
-- luck: that its key is gone, or that the store is another.
local function assert_told(child)
  local reason = ask(child, LOST)[1]
  assert.is_true(reason == "cluster_changed" or reason == "revoked"
    or reason == "expired" or reason == "deleted", reason)
end

-- What |child| asks for is refused for good.
local function assert_refused(child)
  for _, call in ipairs {
    "lock('late')", "lock('late', { timeout = 3 })", "try_lock('late')", "queue('late')",
    "ping()",
  } do
    local results = ask(child, "return client:" .. call)
    assert.same({ "nil", "conflict" }, { results[1], results[3] }, results[2])
    assert.matches("connect anew", results[2], 1, true)
  end
end

-- |child| held under |token| what |etcd| knows nothing of by now.
local function assert_over(child, etcd, token)
  assert.same({ "false", "lost" }, ask(child, "return lock:held()"))
  assert_refused(child)
  local results = ask(child, "return lock:unlock()")
  assert.same({ "nil", "lost" }, { results[1], results[3] })
  -- Whoever connects anew begins with the new store, where tokens are smaller.
  assert.is_true(remote.take(start(etcd:endpoint()), "anew") < token)
end

describe("an etcd that was wiped", function()
  it("and begins anew on the same ports takes all locks with it for good", function()
    local etcd = single()
    local child, token = late_holder(etcd)
    etcd:wipe()
    assert_told(child)
    assert_over(child, etcd, token)
  end)

  it("and has another cluster id is told apart by that", function()
    local etcd = single()
    local child, token = late_holder(etcd)
    etcd:wipe(true)
    assert.same({ "cluster_changed" }, ask(child, LOST))
    assert_over(child, etcd, token)
  end)

  it("is not believed by one who only looks", function()
    local etcd = single()
    local opts = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 300 }
    local children = { remote.start(opts, 2) }
    for _, child in ipairs(children) do make_history(child) end
    etcd:wipe(true)
    for i, call in ipairs { "queue('late')", "ping()" } do
      local results = ask(children[i], "return client:" .. call)
      assert.same({ "nil", "conflict" }, { results[1], results[3] }, results[2])
    end
  end)

  it("hands nothing to one who waited in its queue", function()
    local etcd = single()
    local child, token = late_holder(etcd)
    local waiter = start(etcd:endpoint())
    remote.send(waiter, "return client:lock('late', { timeout = 20 })")
    etcd:await_keys(prefix .. "late/", 2)
    etcd:wipe()
    local results = remote.answer_of(waiter, 25)
    assert.equal("nil", results[1])
    assert.is_true(results[3] == "conflict" or results[3] == "lost", results[3])
    assert_told(child)
    assert_over(child, etcd, token)
  end)
end)

describe("an etcd that was restored from a backup", function()
  local function save(etcd)
    local file = etcd.dir .. "/backup"
    local _, code, err = etcd:ctl("snapshot", "save", file)
    assert.equal(0, code, err)
    return file
  end

  -- Has |etcd| go on where it was when |file| was saved, on the same ports.
  local function restore(etcd, file)
    local member = etcd.members[1]
    etcd:kill()
    proc.run { "rm", "-rf", member.data }
    local _, code, err = proc.run({
      "etcdctl", "snapshot", "restore", file, "--name", member.name, "--data-dir", member.data,
      "--initial-cluster", etcd.cluster, "--initial-cluster-token", etcd.dir,
      "--initial-advertise-peer-urls", member.peer,
    }, { env = etcd.env })
    assert.equal(0, code, err)
    etcd:restart()
  end

  it("takes the locks with it that were taken since", function()
    local etcd = single()
    local file = save(etcd)
    local child, token = late_holder(etcd)
    restore(etcd, file)
    assert_told(child)
    assert_over(child, etcd, token)
  end)

  -- The key in the backup proves nothing: what happened since is forgotten, and
  -- others may have held the lock meanwhile.
  local function assert_key_is_nothing(etcd)
    local child = late_holder(etcd)
    local file = save(etcd)
    make_history(child)
    assert.equal(1, #etcd:keys(prefix .. "late/"))
    restore(etcd, file)
    assert.same({ "cluster_changed" }, ask(child, LOST))
    assert.same({ "false", "lost" }, ask(child, "return lock:held()"))
    assert_refused(child)
  end

  it("takes a lock with it although its key is in the backup", function()
    assert_key_is_nothing(single())
  end)

  it("does so as well if it has had more leaders than the restored one has", function()
    local etcd = single()
    for _ = 1, 3 do etcd:restart() end
    assert_key_is_nothing(etcd)
  end)

  it("has no two holders when the lock was handed over since", function()
    local etcd = single()
    local first = late_holder(etcd)
    local second = start(etcd:endpoint())
    remote.send_take(second, "late")
    etcd:await_keys(prefix .. "late/", 2)
    local file = save(etcd)
    remote.release(first)
    remote.taken(second)
    make_history(second)
    restore(etcd, file)
    -- Whose key is the oldest again.
    local results = ask(first, "lock = client:lock('late', { timeout = 3 }) return lock")
    assert.same({ "nil" }, results)
    assert.same({ "cluster_changed" }, ask(second, LOST))
    assert_refused(first)
    assert_refused(second)
  end)
end)

describe("another cluster behind the second address", function()
  it("is not taken for the first", function()
    local etcd, another = (table.unpack or unpack)(Etcd.start_all { {}, {} })
    finally(function()
      proc.destroy_children()
      etcd:stop()
      another:stop()
    end)
    local child, idle = start(etcd:endpoint() .. "," .. another:endpoint(), 2)
    remote.take(child, "mine")
    assert.same({ "true" }, ask(idle, "return assert(client:lock 'x'):unlock()"))
    etcd:kill()
    local results = ask(idle, "return client:lock('x', { timeout = 5 })")
    assert.same({ "nil", "conflict" }, { results[1], results[3] }, results[2])
    assert.matches("another cluster", results[2])
    assert.same({ "cluster_changed" }, ask(child, "return lock:wait_lost(15)"))
    assert_refused(child)
    -- And nothing of ours stays there.
    another:await_keys(prefix, 0, 10)
    assert.same({}, another:leases())
  end)
end)
