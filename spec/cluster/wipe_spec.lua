-- Tests clients of one member whose etcd is wiped.

-- Regression 013. If a lease was lost while a release was in progress, the client reported the
-- release as a success, whatever etcd answered. For example, etcd was wiped during with_lock, and
-- another client took the lock in the new data: with_lock still returned true.
local function start(etcd)
  return remote.start { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5 }
end

-- Asserts that with_lock fails if etcd is wiped while its function runs. |is_another|: whether the
-- wiped etcd has another cluster ID.
local function tell(is_another)
  local etcd = Etcd.start()
  local child = start(etcd)
  remote.send(child, [[
    return client:with_lock("a", function()
      io.stderr:write "works\n"
      io.read "*l"
      return "result"
    end)
  ]])
  wait.eventually(function() return child:errors():find "works" end, 5, "the function runs")
  etcd:wipe(is_another)
  local thief = start(etcd)
  remote.take(thief, "a")
  child:send "go on"
  local results = remote.answer_of(child, 20)
  assert.same({ "nil", "true", "result" }, { results[1], results[4], results[5] })
  assert.is_true(results[3] == "lost" or results[3] == "conflict", results[3])
  remote.release(thief)
end

describe("with_lock during a wipe of etcd", function()
  it('returns "lost" or "conflict", with the same cluster ID', function() tell(false) end)
  it('returns "lost" or "conflict", with a new cluster ID', function() tell(true) end)
end)

it('a pending release ends as "lost" if another cluster is found', function()
  local etcd = Etcd.start()
  local server = clients.scripted(etcd:endpoint())
  -- The client renews its lease within a second, and then finds the other cluster.
  local child = remote.start { endpoints = server:endpoint(), prefix = prefix, ttl = 3 }
  remote.take(child, "a")
  server:answer("Txn", "never", 0)
  local before = server:calls "Txn"
  -- unlock would return before the client finds the other cluster, so the test waits in the core.
  remote.send(child, "lock._core:release() return lock._core:wait_released(30)")
  wait.eventually(function() return server:calls "Txn" > before end, 5, "the release")
  etcd:wipe(true)
  local results = remote.answer_of(child, 40)
  assert.same({ "false", "lost" }, { results[1], results[3] })
  assert.matches("another etcd cluster", results[2])
end)

-- Regression 044. If etcd was wiped but kept its cluster ID, a client that had connected before
-- still sent its lock call. The call left a lease and a key in the new data until the TTL was over.
it("a client from before a wipe of etcd leaves no key or lease after it", function()
  local etcd = Etcd.start()
  local client = clients.connector { endpoints = etcd:endpoint(), prefix = prefix, ttl = 300 } ()
  for _ = 1, 20 do assert(client:lock "before"):unlock() end -- revisions that the new data lacks
  etcd:wipe()
  local function assert_refused(...)
    assert.matches("connect anew", assert_fails("conflict", ...), 1, true)
  end
  assert_refused(client:lock "a")
  assert_refused(client:lock("a", { timeout = 3 }))
  assert_refused(client:try_lock "a")
  assert_refused(client:queue "a")
  assert_refused(client:ping())
  wait.eventually(function() return #etcd:keys(prefix) == 0 and #etcd:leases() == 0 end, 2)
end)
