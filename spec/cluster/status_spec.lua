-- Tests client:status(), which asks each member of a cluster separately.
-- Needs: one plain member.

local etcd
client_options(function() return { endpoints = etcd:endpoints(), prefix = prefix } end)

setup(function() etcd = suite.start { members = 3 } end)

-- A server that closes its first connection and never answers on later ones.
local HANGS_UP_ONCE = [[
  local uv, held = require "luv", {}
  local server = uv.new_tcp()
  assert(server:bind("127.0.0.1", 0))
  assert(server:listen(64, function()
    local near = uv.new_tcp()
    server:accept(near)
    if #held == 0 then
      near:close()
    else
      print "held"
    end
    held[#held + 1] = near
  end))
  print("port " .. server:getsockname().port)
  uv.run()
]]

describe("status", function()
  it("returns version, ID, role and size of each member, with one request each", function()
    local client, ids, leaders = connect(), {}, 0
    wait.eventually(function() -- on a busy machine the members may elect a leader again
      for _, member in ipairs(assert(client:status())) do
        if member.problems[1] then return nil, member.problems[1] end
      end
      return true
    end, 10, "all members know the leader")
    local before = client:stats().rpcs
    local members = assert(client:status())
    assert.equal(3, #members)
    assert.equal(before + 3, client:stats().rpcs)
    for i, member in ipairs(members) do
      assert.equal(etcd:endpoint(i):match "//(.*)", member.endpoint)
      assert.equal(matrix.etcd_version(), member.version)
      assert.matches("^%x+$", member.id)
      assert.is_nil(ids[member.id])
      ids[member.id] = true
      leaders = leaders + (member.is_leader and 1 or 0)
      assert.is_false(member.is_learner)
      assert.is_true(member.db_size >= member.db_in_use and member.db_in_use > 0)
      assert.is_true(member.seconds > 0 and member.seconds < 2)
      assert.same({}, member.problems)
    end
    assert.equal(1, leaders)
    assert.is_true(ids[members[1].leader_id])
  end)

  it("returns the transport of each endpoint, whether its member answers or not", function()
    assert.equal("local", assert(connect():status())[1].transport)
    local transports = {
      ["127.0.0.2:1"] = "local", ["http://localhost:1"] = "local", ["http://[::1]:1"] = "local",
      ["unix:/nowhere"] = "local", ["unixs:/nowhere"] = "tls", ["https://127.0.0.1:1"] = "tls",
      ["192.0.2.1:1"] = "open", ["http://[2001:db8::1]:1"] = "open",
    }
    local endpoints, told = {}, {}
    for endpoint in pairs(transports) do endpoints[#endpoints + 1] = endpoint end
    for i, member in ipairs(assert(connect { endpoints = endpoints }:status())) do
      told[endpoints[i]] = member.transport
    end
    assert.same(transports, told)
  end)

  it('returns why a member does not answer, and "no leader" without a quorum', function()
    local lock = assert(client:lock("a", { timeout = 20 }))
    etcd:kill(3)
    etcd:pause(2)
    local members = assert(client:status())
    assert.is_nil(members[1].code)
    for i = 2, 3 do
      assert.equal("unavailable", members[i].code)
      assert.is_truthy(members[i].message:find(members[i].endpoint, 1, true), members[i].message)
      assert.is_nil(members[i].version)
    end
    etcd:resume(2)
    assert.is_true((lock:check()))
    -- The last member that still runs reports that it has no leader.
    etcd:kill(2)
    wait.eventually(function()
      local member = assert(client:status())[1]
      return member.problems and (member.problems[1] or ""):find("no leader", 1, true),
        member.message
    end, 5, "no leader")
    local member = assert(client:status())[1]
    assert.same({ matrix.etcd_version(), false }, { member.version, member.is_leader })
    assert.is_nil(member.leader_id)
    etcd:restart(2, { wait = false })
    etcd:restart(3)
    wait.eventually(function() return lock:unlock() ~= nil end, 10, "etcd is back")
  end)

  it("returns the state of a member that requires a token, if the others are down", function()
    server:answer("Status", "before", 3, "etcdserver: user name is empty", 1)
    local client = connect {
      endpoints = { "127.0.0.1:1", "127.0.0.1:2", server:endpoint() }, user = "a", password = "b",
    }
    local member = assert(client:status())[3]
    assert.equal(matrix.etcd_version(), member.version, member.message)
  end)

  it("returns the alarm NOSPACE as a problem", function()
    local small = suite.start { members = 1, args = { "--quota-backend-bytes=20000" } }
    for _ = 1, 10 do small:ctl("put", "a", ("x"):rep(10000)) end
    local client = connect { endpoints = small:endpoints() }
    assert.matches("alarm:NOSPACE", assert(client:status())[1].problems[1])
  end)

  it('returns "protocol" from its first call if a member does not speak TLS', function()
    local client = connect { endpoints = "https://" .. etcd:endpoint():match "//(.*)" }
    local member = assert(client:status())[1]
    assert.equal("protocol", member.code)
    assert.matches("the server does not speak TLS", member.message)
  end)

  it('ends with "unavailable" if close interrupts the search for the cause of a failure', function()
    local child = proc.lua(HANGS_UP_ONCE)
    local client = connect { endpoints = "https://127.0.0.1:" .. child:expect "^port (%d+)" }
    local asked = assert(client._core:status(20))
    child:expect "^held"
    client:close()
    assert.equal("unavailable", asked:wait(0)[1].code)
  end)

  it("ends with a code for each member if the client is closed while etcd is paused", function()
    etcd:pause()
    finally(function() etcd:resume() end)
    local asked = assert(client._core:status(20))
    assert(client._core:status(20))
    collectgarbage() -- frees the second query, which nothing refers to
    assert.is_nil(asked:wait(0.1))
    client:close()
    local members = asked:wait(0)
    assert.equal(3, #members)
    for _, member in ipairs(members) do assert.is_string(member.code) end
  end)

  it('returns "closed" after close', function()
    client:close()
    assert_fails("closed", client:status())
  end)
end)
