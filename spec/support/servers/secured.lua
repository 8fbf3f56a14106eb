-- Starts an etcd with authentication: root, and a user who can access only the keys of the locks.

local Etcd = require "spec.support.servers.etcd"
local assert = require "luassert"
local clients = require "spec.support.harness.clients"
local http = require "socket.http"
local proc = require "spec.support.programs.proc"
local wait = require "spec.support.harness.wait"

local M = {}

-- Creates a key pair in |files| (see certs.lua). Returns etcd's argument for JWT that live for
-- |seconds|.
function M.jwt(files, seconds)
  local key, public = files:key "rsa", files:path "public.pem"
  proc.run { "openssl", "pkey", "-in", key, "-pubout", "-out", public }
  return ("--auth-token=jwt,pub-key=%s,priv-key=%s,sign-method=RS256,ttl=%ds"):format(public, key,
    seconds)
end

-- Returns how many Authenticates, etcdctl's included, the members of |etcd| have received since
-- their start.
function M.authentications(etcd)
  local sum = 0
  for _, member in ipairs(etcd.members) do
    local text = assert(http.request(member.metrics .. "/metrics"))
    local pattern = '\ngrpc_server_started_total{[^\n]*"Authenticate"[^\n]*} (%d+)'
    sum = sum + (tonumber(text:match(pattern)) or 0)
  end
  return sum
end

M.ROOT, M.PASSWORD = "root-secret-7391", "locker-secret-4826"
M.WRONG = "wrong-secret"

-- Runs etcdctl with |...|, which must succeed.
function M.ctl(etcd, ...)
  local _, code, err = etcd:ctl(...)
  assert.equal(0, code, err)
end

-- Adds |user| with the role |role| ("locks") and |password| (PASSWORD).
function M.add_user(etcd, user, role, password)
  M.ctl(etcd, "user", "add", user, "--new-user-password", password or M.PASSWORD)
  M.ctl(etcd, "user", "grant-role", user, role or "locks")
end

-- Adds root and the user "locker", whose role can access the keys below |prefix|, and enables
-- authentication. Returns |etcd|.
function M.secure(etcd, prefix)
  M.ctl(etcd, "role", "add", "locks")
  M.ctl(etcd, "role", "grant-permission", "--prefix=true", "locks", "readwrite", prefix)
  M.add_user(etcd, "root", "root", M.ROOT)
  M.add_user(etcd, "locker")
  M.ctl(etcd, "auth", "enable")
  etcd:log_in("root:" .. M.ROOT)
  return etcd
end

-- Starts one etcd for each entry of |list| (see Etcd.start), all at the same time, and secures each
-- for the keys below |prefix|. Returns them as a list.
function M.start_all(prefix, list)
  for _, opts in ipairs(list) do
    opts.args = opts.args or {}
    -- With etcd's default cost, checking a password takes 0.05 s.
    table.insert(opts.args, "--bcrypt-cost=4")
  end
  local all = Etcd.start_all(list)
  for _, etcd in ipairs(all) do M.secure(etcd, prefix) end
  return all
end

function M.start(prefix, opts)
  return M.start_all(prefix, { opts or {} })[1]
end

-- Returns the options for a client of |etcd| that logs in as "locker", with |changes| (NONE: no
-- such option).
function M.options(etcd, prefix, changes)
  return clients.with({
    endpoints = etcd:endpoints(), prefix = prefix, timeout = 5,
    user = "locker", password = M.PASSWORD,
  }, changes)
end

function M.assert_no_secret(text)
  for _, secret in ipairs { M.ROOT, M.PASSWORD, M.WRONG } do
    assert.is_nil(text:find(secret, 1, true), text)
  end
end

-- Seconds; less than any timeout of the client: the call returned without waiting.
local SOON = wait.SLACK

-- Fails unless the results |...| of a call that began at |from| are a failure with |code| and a
-- message that matches |pattern| and contains no password, and the call took less than SOON.
function M.assert_refused(code, pattern, from, ...)
  local took = wait.now() - from
  local message = clients.assert_fails(code, ...)
  assert.matches(pattern, message)
  M.assert_no_secret(message)
  assert.is_true(took < SOON, ("%s, after %.1f s"):format(message, took))
end

return M
