-- Provides what the tests of a spec file share: one etcd and one set of certificates. Each spec
-- file runs in a process of its own, and so has its own etcd.

local Certs = require "spec.support.servers.certs"
local Etcd = require "spec.support.servers.etcd"
local Nginx = require "spec.support.servers.nginx"
local matrix = require "spec.support.harness.matrix"
local leaks = require "spec.support.harness.leaks"
local proc = require "spec.support.programs.proc"

local M = {}

local shared, certs, prefix

-- Starts an etcd of the current configuration for a spec that needs its own, and returns it. A
-- client of this etcd needs only the option endpoints, because the environment provides the other
-- options. |opts| as for Etcd.start.
function M.start(opts)
  opts = opts or {}
  opts.members = opts.members or matrix.members
  return Etcd.start(opts)
end

-- Returns the etcd of this run. The first call starts it and exports etcdctl's variables, so that
-- clients without options reach it.
function M.etcd()
  if not shared then
    shared = M.start()
    matrix.export(M.variables())
  end
  return shared
end

-- Returns the address of the first member of the run's etcd.
function M.endpoint()
  return M.etcd():endpoint()
end

-- Returns the Certs object of this run, with which a test can issue more certificates.
function M.certs()
  certs = certs or Certs.new()
  certs.shared = certs.shared or certs:cast()
  return certs
end

-- Returns the shared set of certificates; see Certs:cast.
function M.cast()
  return M.certs().shared
end

-- Returns the addresses of all members of the run's etcd, separated by commas.
function M.endpoints()
  return M.etcd():endpoints()
end

-- Returns the environment variables with which a client reaches the run's etcd, for proc's |env|.
function M.variables()
  return matrix.variables(M.endpoints())
end

-- Returns the prefix for the keys of the present spec file.
function M.prefix()
  return prefix
end

-- Called before each spec file: sets its prefix, and lets the user of a secure etcd access it.
function M.begin_file(file)
  prefix = matrix.place(file) .. "/"
  Etcd.allow_all(prefix)
end

-- Continues the members of the run's etcd that a test has left paused.
function M.resume()
  for i, member in ipairs(shared and shared.members or {}) do
    if member.paused then shared:resume(i) end
  end
end

-- Stops the clusters, but not the run's etcd, and not those up to number |from| of Etcd.open (0).
function M.stop_clusters(from)
  Etcd.stop_all(shared, from)
end

-- Called after each spec file: fails if keys, leases, threads or descriptors are left since the
-- snapshot |before|.
function M.end_file(before)
  leaks.assert_none_left(before, shared, prefix)
end

-- Stops all servers and processes and removes the certificates.
function M.stop()
  pcall(Nginx.stop_all)
  Etcd.stop_all()
  if certs then certs:remove() end
  matrix.remove()
  proc.shut_down()
  shared, certs = nil, nil
end

return M
