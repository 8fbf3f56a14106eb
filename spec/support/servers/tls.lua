-- An etcd that speaks TLS and asks for a certificate, and clients with the files
-- that it wants, or others.

local Certs = require "spec.support.servers.certs"
local Etcd = require "spec.support.servers.etcd"
local assert = require "luassert"
local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local M = {}

-- The timeout of calls, and much less than that: the answer is known, not awaited.
local TIMEOUT, SOON = 20, 10 -- seconds

local cast = suite.cast()

-- How a server with |cert| ({ cert, key }) is started; etcdctl stays good.
function M.served_by(cert, client_auth)
  return {
    ca = cast.ca.cert, cert = cert.cert, key = cert.key,
    client = cast.client, client_auth = client_auth,
  }
end

-- An etcd with the good certificate that wants one from its clients.
function M.start()
  return Etcd.start { tls = M.served_by(cast.server) }
end

function M.port_of(etcd)
  return etcd:endpoint():match ":(%d+)$"
end

-- The good options for |etcd|; |changes| replace some (false: none).
function M.options(etcd, prefix, changes)
  return clients.with({
    endpoints = etcd:endpoints(), prefix = prefix, timeout = TIMEOUT,
    cacert = cast.ca.cert, cert = cast.client.cert, key = cast.client.key,
  }, changes)
end

-- No part of a key may be in |message|.
function M.assert_keeps_secrets(message)
  for _, file in ipairs { cast.client.key, cast.client_mismatch.key, cast.client_encrypted.key } do
    for line in Certs.read(file):gmatch "[^\n]+" do
      assert.is_nil(message:find(line, 1, true), message)
    end
  end
end

-- A lock can be had by |client|.
function M.assert_works(client)
  local lock = assert(client:lock "a")
  assert.is_true(lock:check())
  assert(lock:unlock())
  client:close()
end

-- What a call of |client| answered since |from|: |code|, and a message like
-- |pattern|, soon.
function M.assert_told(client, code, pattern, from, ...)
  local took = wait.now() - from
  local message = clients.assert_fails(code, ...)
  assert.matches(pattern, message)
  assert.is_true(took < SOON, ("%s, after %.1f s"):format(message, took))
  M.assert_keeps_secrets(message)
  M.assert_keeps_secrets(tostring(client))
end

-- A lock can't be had by |client|: |code| and |pattern| say why, soon.
function M.assert_refused(client, code, pattern)
  M.assert_told(client, code, pattern, wait.now(), client:lock "a")
  client:close()
end

return M
