-- Tests that a connected client reads replaced certificate files again.
-- Needs: one plain member.

local certs, cast = suite.certs(), suite.cast()

local function copy(from, to)
  assert(uv.fs_copyfile(from, to .. ".new"))
  assert(uv.fs_rename(to .. ".new", to))
end

describe("replaced certificate files", function()
  local files, etcd, client

  -- Copies the certificate of |ca| and the certificate and key of |cert| to the client's files.
  local function install(ca, cert)
    copy(ca.cert, files.cacert)
    copy(cert.cert, files.cert)
    copy(cert.key, files.key)
  end

  before_each(function()
    etcd = tls.start()
    files = {
      cacert = certs:path "live-ca.pem", cert = certs:path "live.pem",
      key = certs:path "live-key.pem", ttl = 30,
    }
    install(cast.ca, cast.client)
    client = clients.connector(tls.options(etcd, prefix))(files)
  end)

  -- Restarts etcd with certificates that the other CA has signed.
  local function switch_etcd()
    etcd:set_tls {
      ca = cast.other_ca.cert, cert = cast.server_other.cert, key = cast.server_other.key,
      client = cast.client_other,
    }
    etcd:restart()
  end

  local function await_refusal()
    wait.eventually(function()
      local message = assert_fails("unavailable", client:lock("b", { timeout = 0.5 }))
      return message:find("signed by a CA that is not in cacert", 1, true), message
    end, 5, "the reason")
  end

  it("are read when etcd restarts with another CA, before a hold is lost", function()
    local lock = assert(client:lock "a")
    install(cast.other_ca, cast.client_other)
    switch_etcd()
    assert(client:lock("b", { timeout = 10 }))
    assert.is_true(lock:check())
    assert.is_true(lock:held())
    assert(lock:unlock())
    assert.equal(0, client:stats().lost)
  end)

  it("are not used while they are invalid: the previous ones stay in use", function()
    local lock = assert(client:lock "a")
    for file, rubbish in pairs { cacert = cast.rubbish, key = cast.client_other.key } do
      local good = certs:path("good-" .. file)
      copy(files[file], good)
      copy(rubbish, files[file])
      -- The client reads its files again because it does not trust the new certificate.
      switch_etcd()
      await_refusal()
      etcd:set_tls(tls.served_by(cast.server))
      etcd:restart()
      -- The client remembers the cause of the failed connection for some seconds.
      wait.eventually(function()
        local b, reason = client:lock("b", { timeout = 5 })
        return b and b:unlock(), reason
      end, 15, "a lock with what was there before")
      copy(good, files[file])
    end
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
  end)

  it("are read if etcd changes its CA first, also if they change one by one", function()
    local lock = assert(client:lock "a")
    switch_etcd()
    await_refusal()
    copy(cast.other_ca.cert, files.cacert)
    copy(cast.client_other.key, files.key) -- does not fit the certificate yet
    local b, why, code = client:lock("b", { timeout = 0.5 })
    assert.is_nil(b)
    assert.is_string(code, why)
    copy(cast.client_other.cert, files.cert)
    wait.eventually(function()
      local got, reason = client:lock("b", { timeout = 1 })
      return got, reason
    end, 10, "a lock with the new certificates")
    assert.is_true(lock:check())
    assert(lock:unlock())
  end)
end)
