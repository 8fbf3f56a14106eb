-- What all spec files share: one etcd and one set of certificates for the whole
-- run.

local Certs = require "spec.support.certs"
local Etcd = require "spec.support.etcd"
local leaks = require "spec.support.leaks"
local proc = require "spec.support.proc"

local M = {}

local shared, certs

-- The etcd of this run, started on first use.
function M.etcd()
  shared = shared or Etcd.start()
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

local function prefix_of(file)
  return file:match "([%w_]+)%.lua$" .. "/"
end

-- A prefix for keys, different for every spec file.
function M.prefix()
  return prefix_of(debug.getinfo(2, "S").short_src)
end

-- Tidies up after the failed tests of a spec file, then fails if anything else
-- is left of it that was not there |before|.
function M.end_file(file, before)
  proc.destroy_children()
  Etcd.stop_all(shared)
  leaks.assert_none_left(before, shared, prefix_of(file))
end

-- Stops everything.
function M.stop()
  Etcd.stop_all()
  if certs then certs:remove() end
  proc.shut_down()
  shared, certs = nil, nil
end

return M
