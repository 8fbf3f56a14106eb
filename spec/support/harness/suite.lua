-- What all spec files share: one etcd and one set of certificates for the whole
-- run, and how to get at it.

local Certs = require "spec.support.servers.certs"
local Etcd = require "spec.support.servers.etcd"
local Nginx = require "spec.support.servers.nginx"
local cell = require "spec.support.harness.cell"
local leaks = require "spec.support.harness.leaks"
local proc = require "spec.support.programs.proc"

local M = {}

local shared, certs

-- An etcd of the cell's kind, for a spec that needs one for itself; its clients
-- find the rest in their environment. |opts| as for Etcd.start.
function M.start(opts)
  opts = opts or {}
  opts.members = opts.members or cell.members
  return Etcd.start(opts)
end

-- The etcd of this run, started on first use, which then is in the environment
-- for clients that are told nothing.
function M.etcd()
  if not shared then
    shared = M.start()
    cell.export(M.variables())
  end
  return shared
end

function M.endpoint()
  return M.etcd():endpoint()
end

-- The maker of this run's certificates, from which a test gets more of its own.
function M.certs()
  certs = certs or Certs.new()
  certs.shared = certs.shared or certs:cast()
  return certs
end

-- The usual ones.
function M.cast()
  return M.certs().shared
end

-- The addresses of its members, with commas between them.
function M.endpoints()
  return M.etcd():endpoints()
end

-- What is in the environment to get at it, for proc's |env|.
function M.variables()
  return cell.variables(M.endpoints())
end

local function prefix_of(file)
  return cell.place(file) .. "/"
end

-- A prefix for keys, different for every spec file.
function M.prefix()
  return prefix_of((debug.getinfo(2, "S").source:gsub("^@", ""))) -- short_src is cut
end

-- Lets the user of a secure cell use the keys of a spec file that begins.
function M.begin_file(file)
  Etcd.allow_all(prefix_of(file))
end

-- Stops what a spec file has left running, then fails if a nginx of that has told of
-- errors, or if anything else is left that was not there |before|.
function M.end_file(file, before)
  proc.destroy_children()
  local errors = Nginx.stop_all()
  Etcd.stop_all(shared)
  leaks.assert_none_left(before, shared, prefix_of(file))
  if errors[1] then error(#errors .. " errors in nginx's log: " .. errors[1], 0) end
end

-- Stops everything.
function M.stop()
  Nginx.stop_all()
  Etcd.stop_all()
  if certs then certs:remove() end
  cell.remove()
  proc.shut_down()
  shared, certs = nil, nil
end

return M
