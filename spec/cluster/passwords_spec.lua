-- Tests clients with passwords of an etcd that needs long to compute the hashes of passwords.
-- Needs: one plain member.

-- With this cost, etcd needs 0.1 to 0.5 s of a processor for the hash of a password.
local COST = 12
local CLIENTS, TTL = 16, 15

local authentications = secured.authentications
local etcds, files = {}, nil

setup(function()
  files = Certs.new()
  local slow = "--bcrypt-cost=" .. COST
  local all = Etcd.start_all {
    { tls = false, args = { slow } },
    { tls = false, args = { slow, secured.jwt(files, 300) } },
    { tls = false, members = 3, args = { slow } },
  }
  for i, kind in ipairs { "simple", "jwt", "cluster" } do
    etcds[kind] = secured.secure(all[i], prefix)
  end
end)

teardown(function() files:remove() end)

-- Connects CLIENTS clients to |etcd|, each of which begins to wait for a lock at once. Returns the
-- clients and their locks when all are held.
local function start_fleet(etcd)
  local fleet, locks = {}, {}
  for i = 1, CLIENTS do
    fleet[i] = connect(secured.options(etcd, prefix, { ttl = TTL, timeout = 60 }))
    locks[i] = assert(fleet[i]:lock_async("fleet/" .. i))
  end
  for i, pending in ipairs(locks) do
    locks[i] = assert(clients.ended(pending, 60))
  end
  return fleet, locks
end

-- Asserts that all |locks| of |fleet| are held. A check fails with "unavailable" if etcd hashes
-- passwords for more than 5 s, as on a busy machine; then it is repeated.
local function assert_held(fleet, locks)
  for i, lock in ipairs(locks) do
    local is_held, message, code
    wait.eventually(function()
      is_held, message, code = lock:check()
      return code ~= "unavailable", message
    end, 60, "an answer to the check")
    assert.is_true(is_held, message)
    assert.equal(0, fleet[i]:stats().lost)
  end
end

-- Regression 240: a client gave an Authenticate up after 0.75 s to 3 s and sent another one. etcd
-- computed the hash of each, so with many clients it answered none in time.
describe("clients that log in at the same time", function()
  it("cost etcd one Authenticate each, and all get their lock", function()
    local etcd = etcds.simple
    local before = authentications(etcd)
    local fleet, locks = start_fleet(etcd)
    assert.equal(CLIENTS, authentications(etcd) - before)
    for _, client in ipairs(fleet) do
      local stats = client:stats()
      assert.equal(1, stats.authentications)
      assert.is_true(stats.authentication_ms > 0)
    end
    for _, lock in ipairs(locks) do assert(lock:unlock()) end
  end)

  -- Regression 241: a request without an answer made the client replace its token.
  it("keep their tokens and holds while etcd stands still for 3 s", function()
    local etcd = etcds.simple
    local fleet, locks = start_fleet(etcd)
    local before = authentications(etcd)
    etcd:pause(1)
    wait.sleep(3)
    etcd:resume(1)
    assert_held(fleet, locks)
    assert.equal(before, authentications(etcd))
  end)

  -- etcdctl logs in once, too. Each stream and each call used to report the old token by itself.
  it("log in once more, and keep their holds, when a new user makes each JWT invalid", function()
    local etcd = etcds.jwt
    local fleet, locks = start_fleet(etcd)
    local before = authentications(etcd)
    secured.ctl(etcd, "user", "add", "another", "--new-user-password", "word")
    assert_held(fleet, locks)
    wait.sleep(TTL / 3 + 1) -- until each client has renewed its lease
    assert_held(fleet, locks)
    assert.is_true(authentications(etcd) - before <= CLIENTS + 2)
  end)
end)

describe("a client with a password", function()
  client_options(function() return secured.options(etcds.simple, prefix) end)

  it("tells that it waits for a token if Authenticate takes longer than the timeout", function()
    local server = clients.scripted(etcds.simple:endpoint())
    server:hold_back("Authenticate", -1)
    local client = connect { endpoints = server:endpoint() }
    local from = wait.now()
    local message = assert_fails("unavailable", client:lock("a", { timeout = 2.5 }))
    assert.is_true(wait.now() - from < 2.5 + wait.SLACK)
    assert.matches("busy with passwords %(Authenticate has taken %d", message)
    server:tell "Authenticate"
    assert(client:lock "a"):unlock()
    assert.equal(1, server:calls "Authenticate")
  end)

  -- An etcd does not answer a call whose token has a higher raft index than its own.
  it("replaces its token when etcd was wiped and set up again", function()
    local etcd = secured.start(prefix)
    for i = 1, 50 do etcd:put(prefix .. "filler", "v" .. i) end
    local client = connect { endpoints = etcd:endpoint() }
    assert(client:ping())
    etcd:wipe()
    etcd:log_in(nil)
    secured.secure(etcd, prefix)
    -- "conflict", because the revision of the new store is below that of the old one
    wait.eventually(function() return select(3, client:ping()) == "conflict" end, 15, "conflict")
  end)

  -- Regression 242: the token was dropped at each failover, although each member knows all tokens
  -- for 5 minutes.
  it("uses its token at the next member after a failover", function()
    local etcd = etcds.cluster
    local client = connect { endpoints = etcd:endpoints() }
    assert(client:lock "a"):unlock()
    local leader = cluster.leader_of(etcd)
    local before = authentications(etcd)
    for i = 1, 3 do
      if i ~= leader then
        etcd:pause(i)
        assert(client:lock "a"):unlock()
        etcd:resume(i)
      end
    end
    assert.equal(before, authentications(etcd))
  end)

  it("logs in at another member if the first does not answer", function()
    local etcd = etcds.cluster
    local leader = cluster.leader_of(etcd)
    local silent = leader == 1 and 2 or 1
    local endpoints = { etcd.members[silent].endpoint, etcd.members[leader].endpoint }
    local client = connect { endpoints = endpoints, timeout = 10 }
    etcd:pause(silent)
    finally(function() etcd:resume(silent) end)
    assert(client:lock "a"):unlock()
  end)
end)

describe("client:set_password", function()
  local NEW = "another-secret-5521"

  client_options(function()
    return secured.options(etcds.simple, prefix, { user = "rotated" })
  end)

  before_each(function() secured.add_user(etcds.simple, "rotated") end)
  after_each(function() secured.ctl(etcds.simple, "user", "delete", "rotated") end)

  it("keeps the holds of a client whose password was changed in etcd", function()
    local client = connect { ttl = TTL }
    local lock = assert(client:lock "a")
    local etcd = etcds.simple
    local change = "echo %s | etcdctl --endpoints %s user passwd rotated --interactive=false"
    local _, status, errors = proc.run({ "sh", "-c", change:format(NEW, etcd:endpoint()) },
      { env = etcd.env })
    assert.equal(0, status, errors)
    wait.eventually(function() return select(3, client:ping()) == "unauthenticated" end)
    assert(client:set_password(NEW))
    assert.is_number(client:ping())
    assert.is_true(lock:check())
    assert(lock:unlock())
  end)

  it('returns "invalid" without a user, and shows no password', function()
    local message = assert_fails("invalid", client:set_password "")
    assert.matches("client:set_password: password = %(not shown%)", message)
    message = assert_fails("invalid", connect { user = NONE, password = NONE }:set_password(NEW))
    assert.matches("a user", message)
    assert.is_nil(message:find(NEW, 1, true))
    local ok, raised = pcall(client.set_password, client, 5521)
    assert.is_false(ok)
    assert.is_nil(raised:find "5521")
  end)
end)
