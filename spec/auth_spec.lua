-- Users, passwords and tokens: what a client with a role may do, what it says
-- when it may not, and that nobody notices when its token ends.

local Etcd = require "spec.support.etcd"
local certs = require "spec.support.certs"
local etcdlock = require "etcdlock"
local proc = require "spec.support.proc"
local suite = require "spec.support.suite"
local wait = require "spec.support.wait"

local prefix = suite.prefix()
local ROOT, SECRET = "root-secret-7391", "locker-secret-4826"
local TIMEOUT, SOON = 5, 1

local etcd, clients

-- ---- an etcd that asks who is there ----

local function ctl(one, ...)
  local _, code, err = one:ctl(...)
  assert.equal(0, code, err)
end

-- The recipe: a role for the keys of the locks, a user with it, and root.
local function secure(one)
  ctl(one, "user", "add", "root:" .. ROOT)
  ctl(one, "user", "grant-role", "root", "root")
  ctl(one, "role", "add", "locks")
  ctl(one, "role", "grant-permission", "--prefix=true", "locks", "readwrite", prefix)
  ctl(one, "user", "add", "locker:" .. SECRET)
  ctl(one, "user", "grant-role", "locker", "locks")
  ctl(one, "auth", "enable")
  one.env.ETCDCTL_USER = "root:" .. ROOT
  return one
end

-- An etcd that forgets its tokens with a restart. (Others find them in their
-- log, where they are as long as there is no snapshot.)
local function start_forgetful()
  return secure(Etcd.start { args = { "--snapshot-count", "10" } })
end

local function forget(one)
  for _ = 1, 30 do one:put(prefix .. "filler", "v") end
  one:del(prefix .. "filler")
  one:restart()
end

local function options(changes)
  local opts = {
    endpoints = etcd:endpoint(), prefix = prefix, timeout = TIMEOUT,
    user = "locker", password = SECRET,
  }
  for name, value in pairs(changes or {}) do opts[name] = value or nil end
  return opts
end

local function connect(changes)
  local client = assert(etcdlock.connect(options(changes)))
  clients[#clients + 1] = client
  return client
end

local function assert_no_secret(text)
  for _, secret in ipairs { ROOT, SECRET, "wrong%-secret" } do
    assert.is_nil(text:find(secret), text)
  end
end

-- What a call answered since |from|: |code|, |pattern|, soon.
local function assert_refused(code, pattern, from, ok, message, got)
  local took = wait.now() - from
  assert.is_nil(ok)
  assert.equal(code, got, message)
  assert.matches(pattern, message)
  assert_no_secret(message)
  assert.is_true(took < SOON, ("%s, after %.1f s"):format(message, took))
end

-- Free locks, contended ones and data through |client| for |seconds|.
local function work(client, other, seconds)
  local deadline, count = wait.now() + seconds, 0
  repeat
    local lock = assert(client:lock "work")
    assert(lock:put(prefix .. "data", "v"))
    assert(lock:delete(prefix .. "data"))
    assert(lock:unlock())
    assert(other:lock "work"):unlock()
    count = count + 1
  until wait.now() >= deadline
  return count
end

setup(function() etcd = secure(Etcd.start()) end)
teardown(function() etcd:stop() end)
before_each(function() clients = {} end)

after_each(function()
  for _, client in ipairs(clients) do client:close() end
end)

describe("a user with a role for the prefix", function()
  it("can do everything with locks", function()
    local client, other = connect(), connect()
    local lock = assert(client:lock "a")
    assert.is_true(lock:check())
    assert(lock:put(prefix .. "data", "v"))
    assert.equal("v", lock:get(prefix .. "data"))
    assert(lock:delete(prefix .. "data"))
    assert.equal(1, #assert(other:queue "a"))
    local _, _, code = other:try_lock "a"
    assert.equal("locked", code)
    _, _, code = other:lock("a", { timeout = 0.2 })
    assert.equal("timeout", code)
    assert(lock:unlock())
    assert(other:with_lock("a", function() end))
    assert.is_number(client:ping())
    assert(client:close())
    assert(other:close())
    assert.same({}, etcd:keys(prefix))
    assert.same({}, etcd:leases())
  end)

  it("asks for one token, however many calls begin at once", function()
    local client = connect { ttl = 300 }
    work(client, connect(), 0.2)
    assert.equal(0, client:stats().failed_attempts)
  end)

  it("waits for a lock and is told when it is free", function()
    local client, other = connect(), connect()
    local lock = assert(client:lock "a")
    local child = proc.lua([[
      local endpoint, prefix, password = ...
      local client = assert(require("etcdlock").connect {
        endpoints = endpoint, prefix = prefix, user = "locker", password = password,
      })
      local lock, message = client:lock("a", { timeout = 10 })
      print(lock and "got it" or message)
      client:close()
    ]], etcd:endpoint(), prefix, SECRET)
    wait.eventually(function() return #assert(other:queue "a") == 2 end)
    assert(lock:unlock())
    assert.equal("got it", child:expect "^.+")
    child:wait()
  end)

  it("may bring a password to an etcd that asks nobody", function()
    local client = connect { endpoints = suite.endpoint() }
    assert(client:lock "a"):unlock()
  end)
end)

describe("a refusal comes at once and is definite:", function()
  it("a wrong password", function()
    local client = connect { password = "wrong-secret" }
    for _, call in ipairs {
      function() return client:lock "a" end,
      function() return client:try_lock "a" end,
      function() return client:queue "a" end,
      function() return client:ping() end,
    } do
      assert_refused("unauthenticated", "user or the password is wrong", wait.now(), call())
    end
    assert.is_true(client:stats().rpcs <= 8, client:stats().rpcs)
    assert_no_secret(tostring(client))
  end)

  it("a user that isn't there", function()
    assert_refused("unauthenticated", "user or the password is wrong", wait.now(),
      connect { user = "nobody" }:lock "a")
  end)

  it("no user at all", function()
    assert_refused("unauthenticated", "wants a user and a password", wait.now(),
      connect { user = false, password = false }:lock "a")
  end)

  it("a token that isn't one", function()
    local client = connect { user = false, password = false, token = "wrong-secret" }
    assert_refused("unauthenticated", "invalid auth token", wait.now(), client:lock "a")
    assert_no_secret(tostring(client))
  end)

  it("a name outside the role's prefix", function()
    local client = connect { prefix = "elsewhere/" }
    for _ = 1, 3 do
      assert_refused("denied", "permission denied", wait.now(), client:lock "a")
      assert_refused("denied", "permission denied", wait.now(), client:try_lock "a")
    end
    assert.is_true(client:stats().rpcs <= 16, client:stats().rpcs)
    client:close()
    assert.same({}, etcd:leases())
  end)

  it("data outside the role's prefix, and the lock stays", function()
    local client = connect()
    local lock = assert(client:lock "a")
    assert_refused("denied", "permission denied", wait.now(), lock:put("elsewhere", "v"))
    assert_refused("denied", "permission denied", wait.now(), lock:get "elsewhere")
    assert.is_true(lock:check())
    assert(lock:unlock())
  end)

  it("a role that may only read", function()
    ctl(etcd, "role", "add", "readers")
    ctl(etcd, "role", "grant-permission", "--prefix=true", "readers", "read", prefix)
    ctl(etcd, "user", "add", "reader:" .. SECRET)
    ctl(etcd, "user", "grant-role", "reader", "readers")
    local client = connect { user = "reader" }
    assert.same({}, client:queue "a")
    assert_refused("denied", "permission denied", wait.now(), client:lock "a")
  end)

  it("a member of the wrong password isn't asked in a storm by many waits", function()
    local client = connect { password = "wrong-secret" }
    for _ = 1, 100 do assert.is_nil((client:try_lock "a")) end
    assert.is_true(client:stats().rpcs <= 200, client:stats().rpcs)
  end)
end)

describe("nobody notices", function()
  -- A hold, a wait and cycles go on while |disturb| does its worst.
  local function assert_undisturbed(one, disturb, seconds)
    local holder = connect { endpoints = one:endpoint(), ttl = 5 }
    local hold = assert(holder:lock "long")
    local child = proc.lua([[
      local endpoint, prefix, password = ...
      local client = assert(require("etcdlock").connect {
        endpoints = endpoint, prefix = prefix, user = "locker", password = password, ttl = 5,
      })
      print "ready"
      local lock, message = client:lock("long", { timeout = 60 })
      print(lock and "got it" or message)
      client:close()
    ]], one:endpoint(), prefix, SECRET)
    child:expect "ready"
    wait.eventually(function() return #assert(holder:queue "long") == 2 end)
    disturb()
    local client = connect { endpoints = one:endpoint() }
    local other = connect { endpoints = one:endpoint() }
    assert.is_true(work(client, other, seconds or 1) > 5)
    assert.is_true(hold:held())
    assert.is_true(hold:check())
    assert.equal(0, holder:stats().lost)
    assert(hold:unlock())
    assert.equal("got it", child:expect "^.+")
    child:wait()
    return holder, client
  end

  it("when a role changes", function()
    assert_undisturbed(etcd, function()
      ctl(etcd, "role", "grant-permission", "locks", "read", "elsewhere")
      ctl(etcd, "role", "revoke-permission", "locks", "elsewhere")
    end)
  end)

  it("when a role changes again and again", function()
    local holder, client = connect(), connect()
    local hold = assert(holder:lock "long")
    for _ = 1, 10 do
      ctl(etcd, "role", "grant-permission", "locks", "read", "elsewhere")
      assert(client:lock "a"):unlock()
      ctl(etcd, "role", "revoke-permission", "locks", "elsewhere")
      assert(client:lock "a"):unlock()
    end
    assert.is_true(hold:check())
  end)

  it("when etcd has restarted", function()
    assert_undisturbed(etcd, function() etcd:restart() end)
  end)

  it("when etcd has restarted and forgotten all tokens", function()
    local own = start_forgetful()
    assert_undisturbed(own, function() forget(own) end)
    own:stop()
  end)

  it("when simple tokens live for 2 s", function()
    local own = secure(Etcd.start { args = { "--auth-token-ttl", "2" } })
    assert_undisturbed(own, function()
      wait.sleep(6) -- nothing but the lease's renewal: the tokens end
    end, 6)
    own:stop()
  end)

  it("when signed tokens live for 2 s", function()
    local files = certs.new()
    local key = files:key "rsa"
    local public = files:path "public.pem"
    proc.run { "openssl", "pkey", "-in", key, "-pubout", "-out", public }
    local own = secure(Etcd.start { args = { "--auth-token",
      ("jwt,pub-key=%s,priv-key=%s,sign-method=RS256,ttl=2s"):format(public, key) } })
    assert_undisturbed(own, function()
      ctl(own, "role", "grant-permission", "locks", "read", "elsewhere")
    end, 8)
    own:stop()
    files:remove()
  end)
end)

describe("a user that is deleted while it holds", function()
  local function add()
    ctl(etcd, "user", "add", "leaver:" .. SECRET)
    ctl(etcd, "user", "grant-role", "leaver", "locks")
  end

  before_each(add)

  after_each(function()
    for _, client in ipairs(clients) do client:close() end
    etcd:ctl("user", "delete", "leaver")
    for _, lease in ipairs(etcd:leases()) do etcd:revoke(lease) end
  end)

  it("is refused without a storm, and its lock ends for sure", function()
    local client = connect { user = "leaver", ttl = 3 }
    local lock = assert(client:lock "a")
    ctl(etcd, "user", "delete", "leaver")
    local _, message, code = client:lock("b", { timeout = 2 })
    assert.equal("unauthenticated", code, message)
    assert_no_secret(message)
    local before = client:stats().rpcs
    wait.sleep(5)
    assert.is_true(client:stats().rpcs - before < 30, client:stats().rpcs - before)
    local held, why = lock:held()
    if held then
      -- This etcd lets anybody renew a lease: then the lock is there.
      assert.is_truthy(etcd:get(lock:key()))
    else
      assert.equal("lost", why)
    end
    client:close()
    wait.eventually(function() return #etcd:keys(prefix) == 0 end, 10, "end of the key")
  end)

  it("goes on when it is back", function()
    local client = connect { user = "leaver", ttl = 10 }
    local lock = assert(client:lock "a")
    ctl(etcd, "user", "delete", "leaver")
    assert.is_nil((client:lock("b", { timeout = 1 })))
    add()
    wait.eventually(function()
      local b, why = client:lock("b", { timeout = 1 })
      return b, why
    end, 5, "a lock with the user that is back")
    assert.is_true(lock:check())
  end)

  it("is refused as soon as its password changes and its token ends", function()
    local client = connect { user = "leaver" }
    assert(client:lock "a"):unlock()
    ctl(etcd, "role", "add", "nothing") -- wakes nobody
    local _, code, err = etcd:ctl("user", "delete", "leaver")
    assert.equal(0, code, err)
    ctl(etcd, "user", "add", "leaver:another")
    ctl(etcd, "user", "grant-role", "leaver", "locks")
    assert_refused("unauthenticated", "password is wrong", wait.now(), client:lock "a")
    ctl(etcd, "role", "delete", "nothing")
  end)
end)

describe("a role that is taken away", function()
  local function revoke()
    ctl(etcd, "role", "revoke-permission", "--prefix=true", "locks", prefix)
  end

  local function grant()
    ctl(etcd, "role", "grant-permission", "--prefix=true", "locks", "readwrite", prefix)
  end

  after_each(grant)

  it("ends a hold for sure, says so, and makes no storm", function()
    local client = connect { ttl = 3 }
    local lock = assert(client:lock "a")
    revoke()
    assert_refused("denied", "permission denied", wait.now(), client:lock "b")
    local before = client:stats().rpcs
    wait.eventually(function() return not lock:held() end, 4, "loss")
    local held, code, message = lock:check()
    assert.is_false(held)
    assert.equal("lost", code)
    assert.matches("denied", message)
    assert.is_true(client:stats().rpcs - before < 30, client:stats().rpcs - before)
    grant()
    wait.eventually(function() return #etcd:keys(prefix) == 0 end, 10, "end of the key")
    assert(client:lock "a"):unlock()
  end)

  it("ends a wait when its turn comes", function()
    local client, other = connect(), connect { user = "root", password = ROOT }
    local lock = assert(other:lock "a")
    local child = proc.lua([[
      local endpoint, prefix, password = ...
      local client = assert(require("etcdlock").connect {
        endpoints = endpoint, prefix = prefix, user = "locker", password = password, ttl = 3,
      })
      local _, message, code = client:lock("a", { timeout = 20 })
      print(code .. ": " .. message)
      client:close()
    ]], etcd:endpoint(), prefix, SECRET)
    wait.eventually(function() return #assert(client:queue "a") == 2 end)
    revoke()
    assert(lock:unlock())
    assert.matches("^denied: .*permission denied", child:expect("^.+", 2))
    child:wait()
    wait.eventually(function() return #etcd:keys(prefix) == 0 end, 10, "end of the wait's key")
  end)
end)

describe("a password or token in plain text", function()
  local function assert_plain_refused(changes)
    local client, message, code = etcdlock.connect(options(changes))
    if client then client:close() end
    assert.is_nil(client, changes.endpoints)
    assert.equal("invalid", code)
    assert.matches("allow_plaintext_auth", message)
    assert_no_secret(message)
  end

  it("goes to this machine only", function()
    for _, endpoint in ipairs {
      "http://192.0.2.1:2379", "192.0.2.1:2379", "http://etcd.example:2379",
      "http://[2001:db8::1]:2379", "http://0.0.0.0:2379", "http://localhost.example:2379",
      "http://127.etcd.example:2379", "127.0.0.1.example:2379",
    } do
      assert_plain_refused { endpoints = endpoint }
      assert_plain_refused { endpoints = { etcd:endpoint(), endpoint } }
      assert_plain_refused {
        endpoints = endpoint, user = false, password = false, token = "wrong-secret",
      }
    end
  end)

  it("goes elsewhere by name", function()
    for _, endpoint in ipairs { "http://192.0.2.1:2379", "http://etcd.example:2379" } do
      connect { endpoints = endpoint, allow_plaintext_auth = true }
    end
  end)

  it("goes through TLS, unix sockets and to all addresses of this machine", function()
    for _, endpoint in ipairs {
      "https://192.0.2.1:2379", "unix:/run/etcd.sock", "http://127.0.0.2:2379",
      "http://localhost:2379", "http://[::1]:2379",
    } do
      connect { endpoints = endpoint }
    end
  end)
end)

describe("what is said about users", function()
  local function refused(changes)
    local client, message, code = etcdlock.connect(options(changes))
    if client then client:close() end
    assert.is_nil(client)
    assert.equal("invalid", code)
    assert_no_secret(message)
    return message
  end

  it("names what is missing or too much", function()
    assert.matches("user.*a password as well", refused { password = false })
    assert.matches("password.*a user as well", refused { user = false })
    assert.matches("either a token or a user", refused { token = "wrong-secret" })
    assert.matches("password", refused { password = "wrong-secret\0x" })
    assert.matches("token", refused { user = false, password = false, token = "" })
  end)

  it("never holds a secret of the wrong type", function()
    for _, field in ipairs { "password", "token", "key_pem" } do
      local ok, message = pcall(etcdlock.connect, { [field] = { "wrong-secret" } })
      assert.is_false(ok)
      assert.matches(field, message)
      assert_no_secret(message)
    end
    local ok, message = pcall(etcdlock.connect, { password = 4826 })
    assert.is_false(ok)
    assert.is_nil(message:find "4826")
  end)

  it("is not in tostring, stats or the lock", function()
    local client = connect()
    local lock = assert(client:lock "a")
    local value = etcd:get(lock:key())
    for _, text in ipairs { tostring(client), tostring(lock), lock:key(), value } do
      assert_no_secret(text)
    end
    for _, count in pairs(client:stats()) do assert.is_number(count) end
  end)
end)

describe("a token of somebody else", function()
  -- One as etcd's HTTP gateway gives it.
  local function token_for(own, user, password)
    local out = proc.run { "curl", "-s", "-d",
      ('{"name":"%s","password":"%s"}'):format(user, password),
      own:endpoint() .. "/v3/auth/authenticate" }
    return out:match '"token":"([^"]+)"'
  end

  it("is as good as a password, until it ends", function()
    local own = start_forgetful()
    local token = token_for(own, "locker", SECRET)
    local client = connect {
      endpoints = own:endpoint(), user = false, password = false, token = token,
    }
    local lock = assert(client:lock "a")
    assert.is_true(lock:check())
    assert.is_nil(tostring(client):find(token, 1, true))
    assert(lock:unlock())
    forget(own)
    local _, message, code = client:lock "a"
    assert.equal("unauthenticated", code, message)
    assert.is_nil(message:find(token, 1, true), message)
    own:stop()
  end)
end)

-- ---- the environment ----

describe("etcdctl's variables for users", function()
  local LOCK = [[
    local opts = { timeout = 5, prefix = "auth_spec/" }
    for i = 1, select("#", ...), 2 do
      local name, value = select(i, ...)
      opts[name] = value
    end
    local client, message, code = require("etcdlock").connect(opts)
    if not client then return print(code .. ": " .. message) end
    local lock
    lock, message, code = client:lock "a"
    print(lock and "locked" or code .. ": " .. message)
    if lock then lock:unlock() end
    client:close()
  ]]

  local function run_with(variables, ...)
    local env = {
      ETCDCTL_ENDPOINTS = etcd:endpoint(), ETCDCTL_CACERT = false, ETCDCTL_CERT = false,
      ETCDCTL_KEY = false, ETCDCTL_USER = false, ETCDCTL_PASSWORD = false,
    }
    for name, value in pairs(variables) do env[name] = value end
    local out, code, err = proc.run_lua("spec/support/child.lua", { LOCK, ... }, { env = env })
    assert.equal(0, code, err)
    assert_no_secret(out .. err)
    return out
  end

  it("may be one or two", function()
    assert.equal("locked\n", run_with { ETCDCTL_USER = "locker:" .. SECRET })
    assert.equal("locked\n", run_with { ETCDCTL_USER = "locker", ETCDCTL_PASSWORD = SECRET })
  end)

  it("allow colons in a password", function()
    ctl(etcd, "user", "add", "colons", "--new-user-password", "a:b:" .. SECRET)
    ctl(etcd, "user", "grant-role", "colons", "locks")
    assert.equal("locked\n", run_with { ETCDCTL_USER = "colons:a:b:" .. SECRET })
    assert.equal("locked\n", run_with {
      ETCDCTL_USER = "colons", ETCDCTL_PASSWORD = "a:b:" .. SECRET,
    })
  end)

  it("give way to options", function()
    local wrong = { ETCDCTL_USER = "locker:wrong-secret" }
    assert.matches("^unauthenticated: .*password is wrong", run_with(wrong))
    assert.equal("locked\n", run_with(wrong, "user", "locker", "password", SECRET))
    assert.equal("locked\n", run_with({
      ETCDCTL_USER = "locker", ETCDCTL_PASSWORD = "wrong-secret",
    }, "password", SECRET))
    assert.matches("^unauthenticated: .*invalid auth token",
      run_with({ ETCDCTL_USER = "locker:" .. SECRET }, "token", "wrong-secret"))
  end)

  it("are named when they are wrong", function()
    assert.matches("^invalid: .*ETCDCTL_USER.*password as well",
      run_with { ETCDCTL_USER = "locker" })
    assert.matches("^invalid: .*ETCDCTL_PASSWORD.*user as well",
      run_with { ETCDCTL_PASSWORD = SECRET })
  end)
end)
