-- The cell of the matrix in which the suite runs: which etcd, how many members
-- the shared one has, and whether etcds want certificates and passwords. Read
-- from CELL_ETCD, CELL_MEMBERS and CELL_SECURE, which `make` sets; without them
-- whatever etcd there is, one member, everybody welcome. And which specs run there
-- at all; CELL_SANITIZE has a say in that, too.

local Certs = require "spec.support.servers.certs"
local Nginx = require "spec.support.servers.nginx"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local uv = require "luv"

local M = {}

-- What a client and etcdctl look for in their environment.
local VARIABLES = {
  "ETCDCTL_ENDPOINTS", "ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY",
  "ETCDCTL_USER", "ETCDCTL_PASSWORD", "ETCDCTL_TOKEN", "ETCDCTL_INSECURE_TRANSPORT",
  "ETCDCTL_INSECURE_SKIP_TLS_VERIFY", "ETCDCTL_DISCOVERY_SRV",
}

local function variable(name)
  local value = os.getenv(name)
  return value ~= "" and value or nil
end

M.members = tonumber(variable "CELL_MEMBERS" or 1)
M.is_secure = variable "CELL_SECURE" == "1"
M.is_sanitized = variable "CELL_SANITIZE" ~= nil
M.root, M.user = "root:of-all-cells", "locker:of-this-cell"

-- ---- which specs ------------------------------------------------------------

-- A spec file without ".lua", or a directory, below spec/ -> why it doesn't run here.
local ELSEWHERE = {}

local function run_elsewhere(is_elsewhere, where, names)
  for name in names:gmatch "%S+" do
    if is_elsewhere then ELSEWHERE[name] = where end
  end
end

local is_matrix = variable "CELL_MEMBERS" ~= nil

-- Their etcds are always the same, so that one cell is enough.
run_elsewhere(is_matrix and (M.is_secure or M.members ~= 1), "the plain cells of one member",
  "tls nginx/worker_spec nginx/phases_spec nginx/calls_spec nginx/end_spec"
  .. " cluster/auth_spec cluster/rights_spec cluster/storm_spec cluster/swallow_spec"
  .. " errors/table_spec errors/lease_spec errors/etcd_spec cluster/token_spec lock/key_spec"
  .. " lock/claim_spec lock/unheard_spec lock/go_spec lock/election_interop_spec"
  .. " lock/observer_spec lock/observer_news_spec lock/proclaim_spec cluster/observer_spec"
  .. " nginx/election_spec nginx/documents_spec nginx/recipes_spec nginx/log_spec"
  .. " eyes/status_spec eyes/log_elsewhere_spec lock/status_spec"
  .. " process/clock_spec process/secrets_spec"
  .. " regress/014_late_write_spec regress/015_late_key_spec"
  .. " house/layers_spec house/documents_spec house/walkthrough_spec house/release_spec"
  .. " house/reference_spec house/support_spec house/bench_spec")
run_elsewhere(is_matrix and M.members ~= 3, "the cells of three members",
  "cluster/failover_spec cluster/identity_spec cluster/secured_spec")
-- They run no C of ours, or have nginx run it, which isn't built for that, or look
-- at all memory, most of which is the sanitizer's.
run_elsewhere(M.is_sanitized, "runs without a sanitizer",
  "nginx eyes/status_spec house/layers_spec house/documents_spec house/walkthrough_spec"
  .. " house/reference_spec house/release_spec process/secrets_spec")

-- Where Debian 12 has luajit, its nginx can have no Lua (see .ci/deps.sh). Anywhere else that
-- is missing by a mistake, and the specs tell.
local has_no_nginx = not Nginx.has_lua()
  and (proc.run { "dpkg-query", "-W", "-f", "${Status}", "libluajit-5.1-2" }):find " installed"
  and (read_file "/etc/os-release" or ""):find 'VERSION_ID="12"'

local function is_for_nginx(file)
  return file:find "spec/nginx/" or read_file(file):find("spec.support.servers.nginx", 1, true)
end

-- A spec file, as it is named here and in keys: "lock/queue_spec".
function M.place(file)
  return file:match "spec/([%w_/]+)%.lua$"
end

-- Where |file| runs if not here.
function M.elsewhere(file)
  local place = M.place(file)
  return ELSEWHERE[place] or ELSEWHERE[place:match "^[^/]*"]
    or has_no_nginx and is_for_nginx(file) and "places where nginx has its Lua module" or nil
end

-- ---- what clients are told --------------------------------------------------

local certs, tls

-- How the members of a secure cell are served, see Etcd.start; nil in others.
function M.tls()
  if M.is_secure and not tls then
    certs = Certs.new()
    local ca = certs:ca()
    local server = certs:issue(ca, "server")
    -- Its name is no user's: only the password says who somebody is.
    local client = certs:issue(ca, "client")
    tls = { ca = ca.cert, cert = server.cert, key = server.key, client = client }
  end
  return tls
end

-- Nothing of etcdctl's, for proc's |env|.
function M.no_variables()
  local env = {}
  for _, name in ipairs(VARIABLES) do env[name] = false end
  return env
end

-- What a user has in the environment to reach |endpoints|, for proc's |env|.
function M.variables(endpoints)
  local env = M.no_variables()
  env.ETCDCTL_ENDPOINTS = endpoints
  if M.is_secure then
    env.ETCDCTL_CACERT = M.tls().ca
    env.ETCDCTL_CERT, env.ETCDCTL_KEY = M.tls().client.cert, M.tls().client.key
    env.ETCDCTL_USER = M.user
  end
  return env
end

-- Makes them this process' own, and its children's.
function M.export(env)
  for name, value in pairs(env) do
    if value then uv.os_setenv(name, value) else uv.os_unsetenv(name) end
  end
end

-- ---- beginning and end ------------------------------------------------------

-- Fails unless the etcd that would be started is the cell's; says what it is.
function M.describe()
  local out = proc.run { "etcd", "--version" }
  local version, wanted = out:match "etcd Version: (%S+)", variable "CELL_ETCD"
  if wanted and version:sub(1, #wanted + 1) ~= wanted .. "." then
    error(("this cell is about etcd %s, and `etcd` is %s"):format(wanted, version), 0)
  end
  return ("etcd %s, %d member%s, %s"):format(version, M.members, M.members > 1 and "s" or "",
    M.is_secure and "client certificates and passwords" or "plain")
end

function M.remove()
  if certs then certs:remove() end
  certs, tls = nil, nil
end

return M
