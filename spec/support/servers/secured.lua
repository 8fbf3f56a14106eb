-- An etcd that asks who is there: root, and a user who may lock.

local Etcd = require "spec.support.servers.etcd"
local assert = require "luassert"
local clients = require "spec.support.harness.clients"
local wait = require "spec.support.harness.wait"

local M = {}

M.ROOT, M.PASSWORD = "root-secret-7391", "locker-secret-4826"
M.WRONG = "wrong-secret"

-- Runs etcdctl with |...|, which must succeed.
function M.ctl(etcd, ...)
  local _, code, err = etcd:ctl(...)
  assert.equal(0, code, err)
end

-- Adds |user|, who may do with the keys of the locks what the role says.
function M.add_user(etcd, user, role, password)
  M.ctl(etcd, "user", "add", user, "--new-user-password", password or M.PASSWORD)
  M.ctl(etcd, "user", "grant-role", user, role or "locks")
end

-- The recipe: root, a role for the keys of the locks, a user with it.
function M.secure(etcd, prefix)
  M.ctl(etcd, "role", "add", "locks")
  M.ctl(etcd, "role", "grant-permission", "--prefix=true", "locks", "readwrite", prefix)
  M.add_user(etcd, "root", "root", M.ROOT)
  M.add_user(etcd, "locker")
  M.ctl(etcd, "auth", "enable")
  etcd.env.ETCDCTL_USER = "root:" .. M.ROOT
  return etcd
end

-- Starts one etcd for each of the options (of Etcd.start) in |list|, at the same
-- time, each with a user for the keys below |prefix|.
function M.start_all(prefix, list)
  for _, opts in ipairs(list) do
    opts.args = opts.args or {}
    -- A password costs etcd 0.05 s with its own cost.
    table.insert(opts.args, "--bcrypt-cost=4")
  end
  local all = Etcd.start_all(list)
  for _, etcd in ipairs(all) do M.secure(etcd, prefix) end
  return all
end

function M.start(prefix, opts)
  return M.start_all(prefix, { opts or {} })[1]
end

-- Options for a client of |etcd| that may lock, with |changes| (false: none).
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

-- Less than any wait of ours: the answer was known, not awaited.
local SOON = wait.SLACK

-- What a call answered since |from|: |code|, and a message like |pattern|, soon.
function M.assert_refused(code, pattern, from, ...)
  local took = wait.now() - from
  local message = clients.assert_fails(code, ...)
  assert.matches(pattern, message)
  M.assert_no_secret(message)
  assert.is_true(took < SOON, ("%s, after %.1f s"):format(message, took))
end

return M
