-- Starts etcds with TLS and client certificates, and checks clients with valid and invalid files.

local Certs = require "spec.support.servers.certs"
local Etcd = require "spec.support.servers.etcd"
local assert = require "luassert"
local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local M = {}

-- Seconds. TIMEOUT: timeout of calls; SOON: limit for a call that returns without waiting.
M.TIMEOUT, M.SOON = 20, 10

local cast = suite.cast()

-- Returns the tls options of Etcd.start for a server with |cert| ({ cert, key }) and |client_auth|;
-- etcdctl uses a valid certificate.
function M.served_by(cert, client_auth)
  return {
    ca = cast.ca.cert, cert = cert.cert, key = cert.key,
    client = cast.client, client_auth = client_auth,
  }
end

-- Starts an etcd that has a valid certificate and requires client certificates.
function M.start()
  return Etcd.start { tls = M.served_by(cast.server) }
end

function M.port_of(etcd)
  return etcd:endpoint():match ":(%d+)$"
end

-- Returns valid client options for |etcd|, with |changes| (NONE: no such option).
function M.options(etcd, prefix, changes)
  return clients.with({
    endpoints = etcd:endpoints(), prefix = prefix, timeout = M.TIMEOUT,
    cacert = cast.ca.cert, cert = cast.client.cert, key = cast.client.key,
  }, changes)
end

-- Fails if |message| contains a line of a private key.
function M.assert_keeps_secrets(message)
  for _, file in ipairs { cast.client.key, cast.client_mismatch.key, cast.client_encrypted.key } do
    for line in Certs.read(file):gmatch "[^\n]+" do
      assert.is_nil(message:find(line, 1, true), message)
    end
  end
end

-- Fails unless |client| can take a lock. Closes |client|.
function M.assert_works(client)
  local lock = assert(client:lock "a")
  assert.is_true(lock:check())
  assert(lock:unlock())
  client:close()
end

-- Fails unless the results |...| of a call of |client| that began at |from| are a failure with
-- |code| and a message that matches |pattern| and contains no key, and the call took less than
-- SOON.
function M.assert_told(client, code, pattern, from, ...)
  local took = wait.now() - from
  local message = clients.assert_fails(code, ...)
  assert.matches(pattern, message)
  assert.is_true(took < M.SOON, ("%s, after %.1f s"):format(message, took))
  M.assert_keeps_secrets(message)
  M.assert_keeps_secrets(tostring(client))
end

-- Fails unless four calls of |client| fail as in assert_told, with few requests in all.
function M.assert_told_by_each(client, code, pattern)
  for _, name in ipairs { "lock", "try_lock", "ping", "queue" } do
    local argument = name ~= "ping" and "a" or nil
    M.assert_told(client, code, pattern, wait.now(), client[name](client, argument))
  end
  assert.is_true(client:stats().rpcs < 20, client:stats().rpcs)
end

-- Fails unless |client| fails to take a lock, as in assert_told. Closes |client|.
function M.assert_refused(client, code, pattern)
  M.assert_told(client, code, pattern, wait.now(), client:lock "a")
  client:close()
end

return M
