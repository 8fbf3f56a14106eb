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
  -- Asserts that a holder, a waiter and three clients that take locks, all at member |i|,
  -- continue after ends(etcd, i).
  local function assert_undisturbed(i, name, ends)
    local holder, waiter = remote.start(options(i), 2)
    local token = remote.take(holder, name)
    remote.send_take(waiter, name, 60)
    etcd:await_keys(prefix .. name .. "/", 2)
    local join = cluster.start_cycles(etcd, options(i), name .. "/work", 3)
    ends(etcd, i)
    local from = wait.now()
    cluster.leader_of(etcd)
    join()
    remote.assert_renewed(holder, from, TTL)
    remote.assert_held(holder, token)
    remote.assert_waits(waiter)
    remote.release(holder)
    assert.is_true(remote.taken(waiter, 2) > token)
    remote.release(waiter)
  end

  it("needs both its certificate and its password", function()
    local child = remote.start(options(1))
    local token = remote.take(child, "a")
    remote.assert_held(child, token)
    remote.release(child)
    local wrong = options(1)
    wrong.password = secured.WRONG
    local results = remote.ask(remote.start(wrong), "return client:lock 'a'")
    assert.same({ "nil", "unauthenticated" }, { results[1], results[3] })
    wrong = options(1)
    wrong.cert, wrong.key = nil, nil
    results = remote.ask(remote.start(wrong), "return client:lock 'a'")
    assert.same({ "nil", "unauthenticated" }, { results[1], results[3] })
    assert.matches("client certificate", results[2])
  end)

  it("keeps its hold and its wait if the leader dies", function()
    assert_undisturbed(cluster.leader_of(etcd), "leader", etcd.kill)
  end)
end)
