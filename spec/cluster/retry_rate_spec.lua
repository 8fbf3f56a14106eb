-- Tests that a client retries refused requests at a rate that etcd can bear.
-- Needs: one plain member.

local STATUS = error_rows.STATUS
local NO_LEADER = "etcdserver: no leader"

-- The most requests that a client may send in a second.
local STORM = 20

-- Starts a client of |endpoint| that holds a lock, and a client with |endpoints| that waits for it.
-- Returns the lock and the pending acquisition.
local function start_waiting(endpoint, endpoints)
  local lock = assert(connect { endpoints = endpoint }:lock "a")
  local waiter = connect { endpoints = endpoints }
  local pending = clients.keep(assert(waiter:lock_async "a"))
  wait.eventually(function() return waiter:stats().watches > 0 end)
  return lock, pending
end

-- Returns the list of the endpoints of |servers|.
local function endpoints_of(servers)
  local list = {}
  for i, server in ipairs(servers) do list[i] = server:endpoint() end
  return list
end

-- Counts the calls of |method| to |servers| for about 1 s. Returns the calls per second, and the
-- seconds for which they were counted.
local function rate(method, servers)
  local function sum()
    local count = 0
    for _, server in ipairs(servers) do count = count + server:calls(method) end
    return count
  end
  local before, from = sum(), wait.now()
  wait.sleep(1)
  local seconds = wait.now() - from
  return (sum() - before) / seconds, seconds
end

describe("a refused client", function()
  for count = 1, 2 do
    it(("sends at most 20 watches a second if %d of %d members refuse them"):format(count,
      count), function()
      local servers = {}
      for i = 1, count do servers[i] = clients.scripted() end
      local lock, pending = start_waiting(suite.endpoint(), endpoints_of(servers))
      for _, server in ipairs(servers) do
        server:answer("Watch", "before", STATUS.UNAVAILABLE, NO_LEADER)
        server:interrupt("Watch", STATUS.UNAVAILABLE, NO_LEADER)
      end
      local calls = rate("Watch", servers)
      assert.is_true(calls > 0 and calls <= STORM, calls .. " watches")
      for _, server in ipairs(servers) do server:pass() end
      assert.is_true(lock:unlock())
      assert(clients.granted(pending))
    end)
  end

  for _, method in ipairs { "LeaseGrant", "Txn", "Authenticate" } do
    it(("sends at most 20 %s calls a second if two members refuse them"):format(method), function()
      local servers = { clients.scripted(), clients.scripted() }
      for _, server in ipairs(servers) do
        server:answer(method, "before", STATUS.UNAVAILABLE, NO_LEADER)
      end
      local client = connect {
        endpoints = endpoints_of(servers), user = "somebody", password = "secret",
      }
      local pending = assert(client:lock_async "a")
      local calls = rate(method, servers)
      assert.is_true(calls > 0 and calls <= STORM, calls .. " calls")
      for _, server in ipairs(servers) do server:pass() end
      assert(clients.granted(pending))
    end)
  end

  it("requests at most 20 leases in a lock call of 1 s if each lease is gone at once", function()
    -- This test has an etcd of its own. The server only claims that the leases are gone: in etcd
    -- they exist until their TTL is over.
    local etcd = Etcd.start()
    local server = clients.scripted(etcd:endpoint())
    local client = connect { endpoints = server:endpoint() }
    server:answer("Txn", "before", STATUS.NOT_FOUND, "etcdserver: requested lease not found")
    local calls, message = server:count("LeaseGrant", function()
      return assert_fails("unavailable", client:lock("a", { timeout = 1 }))
    end)
    assert.is_true(calls <= STORM, calls .. " leases")
    assert.matches("requested lease not found", message, 1, true)
  end)

  it("sends at most 20 watches a second, with little CPU, to a member without a quorum", function()
    local etcd = Etcd.start { members = 3 }
    local server = clients.scripted(etcd:endpoint(1))
    start_waiting(etcd:endpoint(1), { server:endpoint(), etcd:endpoint(2), etcd:endpoint(3) })
    etcd:kill(2)
    etcd:kill(3)
    wait.eventually(function()
      return select(2, server:heard "Watch") == NO_LEADER
    end, 10, "no leader")
    local cpu = os.clock()
    local calls, seconds = rate("Watch", { server })
    assert.is_true(calls <= STORM, calls .. " watches")
    assert.is_true(os.clock() - cpu < 0.3 * seconds, "busy")
  end)
end)

-- Regression 032. A program cancelled 1,500 waits while etcd refused all requests. The client then
-- sent 3,508 requests a second, although no call waited any more. It sent all retries at the same
-- time.
describe("waits cancelled in an outage", function()
  local WAITS, SECONDS, RATE = 1500, 3, 100 -- RATE: requests a second

  before_each(function() scripted_client { ttl = 60 } end)

  -- Returns how many transactions, reads and lease audits the server has got.
  local function requests()
    return server:calls "Txn" + server:calls "Range" + server:calls "LeaseTimeToLive"
  end

  it("cause at most 100 requests a second", function()
    local waits = {}
    for i = 1, WAITS do waits[i] = assert(client:lock_async("a/" .. i)) end
    etcd:await_keys(prefix .. "a/", WAITS, 30)
    server:answer("Txn", "before", error_rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
    local before, from = requests(), wait.now()
    for i = 1, WAITS do waits[i]:cancel() end
    wait.sleep(SECONDS)
    local count = requests() - before
    assert.is_true(count > 0 and count <= RATE * (wait.now() - from), count .. " requests")
    server:pass()
    etcd:await_keys(prefix .. "a/", 0, 60)
    assert(client:lock("a/1", { timeout = 10 })):unlock()
  end)
end)
