-- Tests etcd's authentication: what a user with a role may do, which code a refused call
-- returns, and that no password or token appears in messages, handles or etcd.
-- Needs: one plain member.

local PASSWORD, WRONG = secured.PASSWORD, secured.WRONG
local assert_refused, assert_no_secret = secured.assert_refused, secured.assert_no_secret

local etcd

local function options(changes) return secured.options(etcd, prefix, changes) end

client_options(options)

setup(function() etcd = secured.start(prefix) end)

describe("a user with a role for the prefix", function()
  it("can use lock, data and queue calls and leaves nothing in etcd", function()
    clients.assert_nothing_left(etcd, prefix, function()
      local client, other = connect(), connect { elsewhere = true }
      local lock = assert(client:lock "a")
      assert.is_true(lock:check())
      assert(lock:put(prefix .. "data", "v"))
      assert.equal("v", lock:get(prefix .. "data"))
      assert(lock:delete(prefix .. "data"))
      assert.equal(1, #assert(other:queue "a"))
      assert_fails("locked", other:try_lock "a")
      assert_fails("timeout", clients.answered(other.lock, other, "a", { timeout = 1 }))
      assert(lock:unlock())
      assert(other:with_lock("a", function() end))
      assert.is_number(client:ping())
      local from = wait.now()
      assert(client:close())
      assert(other:close())
      return from
    end)
  end)
end)

describe("a refused call", function()
  it('returns "unauthenticated" at once if the password is wrong', function()
    local client = connect { password = WRONG }
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

  it("says so if the wrong password ends with a line break", function()
    for _, wrong in ipairs { PASSWORD .. "\n", PASSWORD .. "\r" } do
      local client = connect { password = wrong }
      local message = assert_fails("unauthenticated", client:lock "a")
      assert.matches("password is wrong; the password ends with a line break$", message)
      assert_no_secret(message)
    end
    local message = assert_fails("unauthenticated", connect { password = WRONG }:lock "a")
    assert.matches("password is wrong$", message)
  end)

  it("costs at most 2 requests, averaged over 100 calls with a wrong password", function()
    local client = connect { password = WRONG }
    for _ = 1, 100 do assert.is_nil((client:try_lock "a")) end
    assert.is_true(client:stats().rpcs <= 200, client:stats().rpcs)
  end)

  for what, row in pairs {
    ["the user does not exist"] = { { user = "nobody" }, "user or the password is wrong" },
    ["the client has no user"] =
      { { user = NONE, password = NONE }, "requires a user and a password" },
    ["the token is invalid"] =
      { { user = NONE, password = NONE, token = WRONG }, "invalid auth token" },
  } do
    it('returns "unauthenticated" at once if ' .. what, function()
      local client = connect(row[1])
      assert_refused("unauthenticated", row[2], wait.now(), client:lock "a")
      assert_no_secret(tostring(client))
    end)
  end

  it('returns "denied" at once if the role does not cover the lock name', function()
    clients.assert_nothing_left(etcd, "elsewhere/", function()
      local client = connect { prefix = "elsewhere/" }
      for _ = 1, 3 do
        assert_refused("denied", "permission denied", wait.now(), client:lock "a")
        assert_refused("denied", "permission denied", wait.now(), client:try_lock "a")
      end
      assert.is_true(client:stats().rpcs <= 16, client:stats().rpcs)
      local from = wait.now()
      client:close()
      return from
    end)
  end)

  -- Regression 272. The message named neither the user nor the key; that of a holder's call also
  -- did not name the lock.
  it("names the user, the lock and the keys if etcd denies a permission; a hold stays", function()
    local lock = assert(client:lock "a")
    local denied = ("etcd %s: etcdserver: permission denied for user \"locker\"")
      :format(etcd:endpoint():match "//(.*)")
    local function assert_says(text, ...)
      assert.equal(text:gsub("DENIED", denied), (assert_fails("denied", ...)))
    end
    local hold = ('lock "%sa": '):format(prefix)
    assert_says(hold .. 'put "elsewhere": DENIED', lock:put("elsewhere", "v"))
    assert_says(hold .. 'get "elsewhere": DENIED', lock:get "elsewhere")
    assert_says(hold .. 'delete "x\\x0a": DENIED', lock:delete "x\n")
    assert_says(hold .. ('txn "%sown", "elsewhere": DENIED'):format(prefix),
      lock:txn { { "get", prefix .. "own" }, { "get", "elsewhere" } })
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
    assert_says('get "elsewhere": DENIED', client:get "elsewhere")
    local stranger = connect { prefix = "elsewhere/" }
    local needs = "; the user needs readwrite for the keys below this name"
    assert_says('lock "elsewhere/a": DENIED' .. needs, stranger:lock "a")
    assert_says('semaphore "elsewhere/a": DENIED' .. needs, stranger:semaphore("a", 1):lock())
    assert_says('semaphore "elsewhere/a": DENIED', stranger:semaphore("a", 1):available())
    assert_says('election "elsewhere/a": DENIED', stranger:election "a":leader())
    assert_says('lock "elsewhere/a": DENIED', stranger:queue "a")
    assert_says('lock "elsewhere/a": DENIED', stranger:break_lock("a", 1))
    assert_says('locks that begin with "elsewhere/": DENIED', stranger:queues())
  end)

  it("names the common name of the client certificate if that is the user", function()
    local secure = secured.start(prefix, { tls = tls.served_by(suite.cast().server) })
    secured.ctl(secure, "user", "add", "client", "--no-password")
    secured.ctl(secure, "user", "grant-role", "client", "locks")
    local opts = tls.options(secure, prefix)
    opts.user, opts.password = NONE, NONE
    local lock = assert(connect(opts):lock "a")
    assert.matches('permission denied for user "client"$',
      (assert_fails("denied", lock:put("elsewhere", "v"))))
    assert.is_true(lock:unlock())
  end)

  it('returns "denied" from lock if the role is read-only; queue succeeds', function()
    secured.ctl(etcd, "role", "add", "readers")
    secured.ctl(etcd, "role", "grant-permission", "--prefix=true", "readers", "read", prefix)
    secured.add_user(etcd, "reader", "readers")
    local client = connect { user = "reader" }
    assert.same({}, client:queue "a")
    assert_refused("denied", "permission denied", wait.now(), client:lock "a")
  end)
end)

-- Asserts that connect returns "invalid" for options with |changes|, and a message that matches
-- |pattern|.
local function assert_invalid(pattern, changes)
  local message = assert_fails("invalid", etcdlock.connect(options(changes)))
  assert_no_secret(message)
  assert.matches(pattern, message)
end

describe("a password or token", function()
  it('makes connect return "invalid" for a non-loopback address without TLS', function()
    for _, endpoint in ipairs {
      "http://192.0.2.1:2379", "192.0.2.1:2379", "http://etcd.example:2379",
      "http://[2001:db8::1]:2379", "http://0.0.0.0:2379", "http://localhost.example:2379",
      "http://127.etcd.example:2379", "127.0.0.1.example:2379",
    } do
      for _, changes in ipairs {
        { endpoints = endpoint }, { endpoints = { etcd:endpoint(), endpoint } },
        { endpoints = endpoint, user = NONE, password = NONE, token = WRONG },
      } do
        assert_invalid("allow_plaintext_auth", changes)
      end
    end
  end)

  it("is accepted for any address without TLS if allow_plaintext_auth is set", function()
    for _, endpoint in ipairs { "http://192.0.2.1:2379", "http://etcd.example:2379" } do
      connect { endpoints = endpoint, allow_plaintext_auth = true }
    end
  end)

  it("is accepted for TLS, unix sockets and loopback addresses", function()
    for _, endpoint in ipairs {
      "https://192.0.2.1:2379", "unix:/run/etcd.sock", "http://127.0.0.2:2379",
      "http://localhost:2379", "http://[::1]:2379",
    } do
      connect { endpoints = endpoint }
    end
  end)
end)

describe("etcdlock", function()
  it("names the credential option that is missing, conflicting or invalid", function()
    assert_invalid("user.*a password as well", { password = NONE })
    assert_invalid("password.*a user as well", { user = NONE })
    assert_invalid("either a token or a user", { token = WRONG })
    assert_invalid("password", { password = WRONG .. "\0x" })
    assert_invalid("token", { user = NONE, password = NONE, token = "" })
  end)

  it("does not show a credential of the wrong type in the error that it raises", function()
    for _, field in ipairs { "password", "token", "key_pem" } do
      local ok, message = pcall(etcdlock.connect, { [field] = { WRONG } })
      assert.is_false(ok)
      assert.matches(field, message)
      assert_no_secret(message)
    end
    local ok, message = pcall(etcdlock.connect, { password = 4826 })
    assert.is_false(ok)
    assert.is_nil(message:find "4826")
  end)

  it("shows no credential in tostring, stats, the lock's key or its value", function()
    local lock = assert(client:lock "a")
    local value = etcd:get(lock:key())
    for _, text in ipairs { tostring(client), tostring(lock), lock:key(), value } do
      assert_no_secret(text)
    end
    for _, count in pairs(client:stats()) do assert.is_number(count) end
  end)
end)

describe("connect with etcdctl's variables", function()
  local function lock_with(env, opts)
    env.ETCDCTL_ENDPOINTS = etcd:endpoint()
    local out, err = variables.lock(env,
      clients.with({ prefix = prefix, timeout = 5 }, opts))
    assert_no_secret(out .. err)
    return out
  end

  it("takes the password from ETCDCTL_USER or ETCDCTL_PASSWORD", function()
    assert.equal("locked\n", lock_with { ETCDCTL_USER = "locker:" .. PASSWORD })
    assert.equal("locked\n", lock_with { ETCDCTL_USER = "locker", ETCDCTL_PASSWORD = PASSWORD })
  end)

  it("accepts colons in the password", function()
    secured.add_user(etcd, "colons", "locks", "a:b:" .. PASSWORD)
    assert.equal("locked\n", lock_with { ETCDCTL_USER = "colons:a:b:" .. PASSWORD })
    assert.equal("locked\n", lock_with {
      ETCDCTL_USER = "colons", ETCDCTL_PASSWORD = "a:b:" .. PASSWORD,
    })
  end)

  it("prefers the options user, password and token over the variables", function()
    local wrong = { ETCDCTL_USER = "locker:" .. WRONG }
    assert.matches("^unauthenticated: .*password is wrong", lock_with(wrong))
    assert.equal("locked\n", lock_with(wrong, { user = "locker", password = PASSWORD }))
    assert.equal("locked\n", lock_with({
      ETCDCTL_USER = "locker", ETCDCTL_PASSWORD = WRONG,
    }, { password = PASSWORD }))
    assert.matches("^unauthenticated: .*invalid auth token",
      lock_with({ ETCDCTL_USER = "locker:" .. PASSWORD }, { token = WRONG }))
  end)

  it("names the variable if the user or the password is missing", function()
    assert.matches("^invalid: .*ETCDCTL_USER.*password as well",
      lock_with { ETCDCTL_USER = "locker" })
    assert.matches("^invalid: .*ETCDCTL_PASSWORD.*user as well",
      lock_with { ETCDCTL_PASSWORD = PASSWORD })
  end)
end)
