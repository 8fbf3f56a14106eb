-- Tests three members with TLS and authentication together, and the loss of the member in use.
-- Needs: three members.

local TTL = 10

local etcd

-- Returns the options of a client that uses member |i| first.
local function options(i)
  return tls.options(etcd, prefix, {
    endpoints = cluster.endpoints_from(etcd, i), ttl = TTL,
    user = "locker", password = secured.PASSWORD,
  })
end

setup(function()
  etcd = secured.start(prefix, { members = 3, tls = tls.served_by(suite.cast().server) })
end)

before_each(function() cluster.heal(etcd) end)

describe("a client with TLS and authentication", function()
  it("needs both its certificate and its password", function()
    local child = remote.start(options(1))
    local token = remote.take(child, "a")
    remote.assert_held(child, token)
    remote.release(child)
    for text, changes in pairs {
      ["password is wrong"] = { password = secured.WRONG },
      ["client certificate"] = { cert = NONE, key = NONE },
    } do
      local wrong = remote.start(clients.with(options(1), changes))
      local results = remote.ask(wrong, "return client:lock 'a'")
      assert.same({ "nil", "unauthenticated" }, { results[1], results[3] })
      assert.matches(text, results[2])
    end
  end)

  it("keeps its hold and its wait if the leader dies", function()
    local leader = cluster.leader_of(etcd)
    local assert_undisturbed = cluster.hold_and_wait(etcd, options(leader), "leader")
    local join = cluster.start_cycles(etcd, options(leader), "leader/work", 3)
    etcd:kill(leader)
    local from = wait.now()
    cluster.leader_of(etcd)
    join()
    assert_undisturbed(from)
  end)
end)
