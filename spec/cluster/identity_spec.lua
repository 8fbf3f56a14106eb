-- Tests what a client does if etcd is wiped, restored from a backup, or replaced by another
-- cluster: its holds are lost, and its calls are refused until the program connects again.
-- Needs: three members.

local ask = remote.ask
local LOST = "local reason, _, code = lock:wait_lost(30) return reason or code"

local function start(endpoints, count)
  -- The TTL is so long that no lease expires while etcd is being replaced.
  return remote.start({ endpoints = endpoints, prefix = prefix, ttl = 30 }, count)
end

-- Makes |child| use revisions that a new store does not have yet.
local function make_history(child)
  assert.same({ "true" }, ask(child, [[
    for i = 1, 20 do assert(client:lock('history')):unlock() end
    return true
  ]]))
end

-- Starts a client that takes a lock at a late revision of |etcd|; returns it and its token.
local function late_holder(etcd)
  local child = start(etcd:endpoint())
  make_history(child)
  return child, remote.take(child, "late")
end

-- Asserts that |child| loses its hold. The reason depends on what the client detects first, for
-- example that its key is missing, or that the store is another one.
local function assert_told(child)
  local reason = ask(child, LOST)[1]
  assert.is_true(reason == "cluster_changed" or reason == "revoked"
    or reason == "expired" or reason == "deleted", reason)
end

-- Asserts that all calls of |child| return "conflict" and a message that asks to connect anew.
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

-- Asserts that |child| has lost its hold with the token |token|, that its calls are refused,
-- and that a new client gets a lock in |etcd| with a smaller token.
local function assert_over(child, etcd, token)
  assert.same({ "false", "lost" }, ask(child, "return lock:held()"))
  assert_refused(child)
  local results = ask(child, "return lock:unlock()")
  assert.same({ "nil", "lost" }, { results[1], results[3] })
  -- A new client gets its token from the new store, where revisions are smaller.
  assert.is_true(remote.take(start(etcd:endpoint()), "anew") < token)
end

describe("a wipe of etcd", function()
  it('ends holds and makes calls return "conflict" if the cluster ID is the same', function()
    local etcd = Etcd.start()
    local child, token = late_holder(etcd)
    etcd:wipe()
    assert_told(child)
    assert_over(child, etcd, token)
  end)

  it('ends holds with "cluster_changed" if the cluster ID is new', function()
    local etcd = Etcd.start()
    local child, token = late_holder(etcd)
    etcd:wipe(true)
    assert.same({ "cluster_changed" }, ask(child, LOST))
    assert_over(child, etcd, token)
  end)

  it('makes a waiting lock call return "conflict" or "lost"', function()
    local etcd = Etcd.start()
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

describe("a restore of etcd from a backup", function()
  -- Saves a snapshot of |etcd|; returns its file.
  local function save(etcd)
    local file = etcd.dir .. "/backup"
    local _, code, err = etcd:ctl("snapshot", "save", file)
    assert.equal(0, code, err)
    return file
  end

  -- Restarts |etcd| on the same ports with the data of the snapshot |file|.
  local function restore(etcd, file)
    local member = etcd.members[1]
    etcd:kill()
    proc.run { "rm", "-rf", member.data }
    -- Since etcd 3.6 only etcdutl can restore; etcd 3.4 has no etcdutl.
    local tool = matrix.etcd_version():find "^3%.4%." and "etcdctl" or "etcdutl"
    local _, code, err = proc.run({
      tool, "snapshot", "restore", file, "--name", member.name, "--data-dir", member.data,
      "--initial-cluster", etcd.cluster, "--initial-cluster-token", etcd.dir,
      "--initial-advertise-peer-urls", member.peer,
    }, { env = etcd.env })
    assert.equal(0, code, err)
    etcd:restart()
  end

  -- Asserts that a hold is lost although its key is in the backup. The key proves nothing: the
  -- restored store lacks later changes, and other clients may have held the lock since.
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

  it('ends a hold with "cluster_changed" although its key is in the backup', function()
    assert_key_is_nothing(Etcd.start())
  end)

  it('ends a hold that is in the backup even if it lowers the raft term', function()
    local etcd = Etcd.start()
    for _ = 1, 3 do etcd:restart() end
    assert_key_is_nothing(etcd)
  end)

  it('leaves no holder of a lock that passed to a waiter after the backup', function()
    local etcd = Etcd.start()
    local first = late_holder(etcd)
    local second = start(etcd:endpoint())
    remote.send_take(second, "late")
    etcd:await_keys(prefix .. "late/", 2)
    local file = save(etcd)
    remote.release(first)
    remote.taken(second)
    make_history(second)
    restore(etcd, file)
    -- In the restored data the key of |first| is the oldest of the queue again.
    local results = ask(first, "lock = client:lock('late', { timeout = 3 }) return lock")
    assert.same({ "nil" }, results)
    assert.same({ "cluster_changed" }, ask(second, LOST))
    assert_refused(first)
    assert_refused(second)
  end)
end)

describe("another cluster at the second endpoint", function()
  it('makes calls return "conflict" and holds end with "cluster_changed"', function()
    local etcd, another = (table.unpack or unpack)(Etcd.start_all { {}, {} })
    local child, idle = start(etcd:endpoint() .. "," .. another:endpoint(), 2)
    remote.take(child, "mine")
    assert.same({ "true" }, ask(idle, "return assert(client:lock 'x'):unlock()"))
    etcd:kill()
    local results = ask(idle, "return client:lock('x', { timeout = 5 })")
    assert.same({ "nil", "conflict" }, { results[1], results[3] }, results[2])
    assert.matches("another etcd cluster", results[2])
    assert.same({ "cluster_changed" }, ask(child, "return lock:wait_lost(30)"))
    assert_refused(child)
    -- The clients leave no key and no lease in the other cluster.
    another:await_keys(prefix, 0, 10)
    assert.same({}, another:leases())
  end)
end)
