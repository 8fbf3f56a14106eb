-- Tests answers of etcd that lack a field, and those of a corrupt cluster.

-- Regression 132. etcd 3.7 omits the leases of keys in some answers, and the client read that as
-- "no other client has a key": two clients held one lock. No field that is missing may be read as
-- "free".
scripted_client { ttl = 5 }

-- The fields of an answer to a transaction (TxnResponse in src/etcd/etcd.proto).
local FIELDS = {
  { "the header", "1" }, { "the cluster ID", "1.1" }, { "the member ID", "1.2" },
  { "the revision", "1.3" }, { "the raft term", "1.4" }, { '"succeeded"', "2" },
  { "the responses", "3" },
  { "the results of reads", "3.1" }, { "the keys", "3.1.2" }, { "the names of keys", "3.1.2.1" },
  { "the create revisions", "3.1.2.2" }, { "the mod revisions", "3.1.2.3" },
  { "the versions", "3.1.2.4" }, { "the values", "3.1.2.5" }, { "the leases", "3.1.2.6" },
  { '"more"', "3.1.3" }, { '"count"', "3.1.4" },
}

for _, field in ipairs(FIELDS) do
  it("a held lock is not granted by answers without " .. field[1], function()
    local holder = connect()
    clients.keep(assert(holder:lock "a"))
    clients.keep(assert(holder:semaphore("pool", 1):lock()))
    etcd:put(prefix .. "a/data", "user data")
    etcd:put(prefix .. "a/cafe", "user data in the form of an entry")
    server:omit("Txn", field[2])
    assert.is_nil((client:lock("a", { timeout = 0.2 })))
    assert.is_nil((client:try_lock "a"))
    assert.is_nil((client:read_lock("a", { timeout = 0.2 })))
    assert.is_nil((client:write_lock("a", { timeout = 0.2 })))
    assert.is_nil((client:semaphore("pool", 1):lock { timeout = 0.2 }))
    assert.is_nil((client:multi_lock({ "a", "b" }, { timeout = 0.2 })))
  end)
end

describe("answers without leases", function()
  local MESSAGE = "etcd omits keys or leases in its answer"

  it('make a wait fail with "protocol", a message and a remedy of doctor', function()
    clients.keep(assert(connect():lock "a"))
    server:omit("Txn", "3.1.2.6")
    local message = assert_fails("protocol", client:lock("a", { timeout = 5 }))
    assert.matches(('lock "%sa": %s; update etcdlock'):format(prefix, MESSAGE), message, 1, true)
    local out, status = command.run({ "doctor", "--endpoints", server.address, "--prefix", prefix })
    assert.equal(1, status)
    assert.matches(MESSAGE, out, 1, true)
    assert.matches("-> update etcdlock", out, 1, true)
  end)

  it("neither end a hold at once nor make its release fail", function()
    local lock = assert(client:lock "a")
    server:omit("Txn", "3.1.2.6")
    assert.is_true(lock:held())
    assert.is_true(lock:unlock())
    etcd:await_keys(prefix, 0)
  end)
end)

-- Regression 091. An etcd with a CORRUPT alarm refuses each write before it applies it. The client
-- took these refusals for an outage: within 14 s it requested 50 leases, and revoked 76 that did
-- not exist.
describe("in a corrupt cluster,", function()
  before_each(function() scripted_client { ttl = 60 } end)

  for what, has_lease in pairs {
    ["lock fails after one request for a lease, and revokes none"] = false,
    ["lock fails after one request for a place in the queue, and keeps its lease"] = true,
  } do
    it(what, function()
      if has_lease then assert.is_true(assert(client:lock "a"):unlock()) end
      for _, method in ipairs { "Txn", "LeaseGrant", "LeaseRevoke" } do
        server:answer(method, "before", error_rows.STATUS.DATA_LOSS, "etcdserver: corrupt cluster")
      end
      local from = wait.now()
      assert.matches("corrupt cluster",
        assert_fails("unavailable", client:lock("a", { timeout = 5 })), 1, true)
      assert.is_true(wait.now() - from < 4, wait.now() - from)
      assert.equal(1, server:calls "LeaseGrant")
      assert.equal(0, server:calls "LeaseRevoke")
      server:pass()
      assert.is_true(assert(client:lock("a", { timeout = 20 })):unlock())
    end)
  end
end)
