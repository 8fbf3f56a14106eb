-- Describes the configuration in which the suite runs: the version of the first etcd in PATH, the
-- number of members of the shared etcd, and whether etcds require certificates and passwords.
-- `make` sets the last two by MATRIX_MEMBERS and MATRIX_SECURE. Without these variables it is: one
-- member, no security. MATRIX_COMMAND is the executable that runs as the command etcdlock; without
-- it the Lua script does. The file also decides which spec files can run in this configuration and
-- with the build MATRIX_SANITIZE.

local Certs = require "spec.support.servers.certs"
local Nginx = require "spec.support.servers.nginx"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local uv = require "luv"

local M = {}

-- The variables that clients or etcdctl read.
local VARIABLES = {
  "ETCDCTL_ENDPOINTS", "ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY",
  "ETCDCTL_USER", "ETCDCTL_PASSWORD", "ETCDCTL_TOKEN", "ETCDCTL_INSECURE_TRANSPORT",
  "ETCDCTL_INSECURE_SKIP_TLS_VERIFY", "ETCDCTL_DISCOVERY_SRV", "ETCDCTL_API",
}

local function variable(name)
  local value = os.getenv(name)
  return value ~= "" and value or nil
end

M.members = tonumber(variable "MATRIX_MEMBERS" or 1)
M.is_secure = variable "MATRIX_SECURE" == "1"
M.is_sanitized = variable "MATRIX_SANITIZE" ~= nil and variable "MATRIX_SANITIZE" ~= "gcov"
M.command = variable "MATRIX_COMMAND"
M.root, M.user = "root:of-all-etcds", "locker:of-this-run"

-- ---- which specs ------------------------------------------------------------

-- What the line "-- Needs: ..." of a spec file may name -> true if the file must be skipped here.
-- `make suite MEMBERS=3` sets MATRIX_MEMBERS. Without it no file is skipped because of the
-- configuration of etcd: the file starts the etcd that it needs.
local is_matrix = variable "MATRIX_MEMBERS" ~= nil
local MISSING = {
  -- The spec file starts its own etcds, always the same ones, so that it needs to run in one
  -- configuration only.
  ["one plain member"] = is_matrix and (M.is_secure or M.members ~= 1),
  ["three members"] = is_matrix and M.members ~= 3,
  -- For example, the spec file runs none of the project's C code, or runs it in nginx or in a
  -- process with small limits, or searches all memory of a process.
  ["no sanitizer"] = M.is_sanitized,
  -- The spec file tests how the command finds the modules that are installed in the machine.
  ["the Lua script"] = M.command ~= nil,
  ["the executable"] = M.command == nil,
  cqueues = _VERSION == "Lua 5.5", -- for which cqueues has no release yet
}

-- On a Debian 12 with luajit, nginx cannot have its Lua module (see .ci/deps.sh), and the specs
-- that need it are skipped. On other systems these specs fail if the module is missing.
local has_no_nginx = not Nginx.has_lua()
  and (proc.run { "dpkg-query", "-W", "-f", "${Status}", "libluajit-5.1-2" }):find " installed"
  and (read_file "/etc/os-release" or ""):find 'VERSION_ID="12"'

-- Returns the part of a key prefix that names a spec file: "lock/queue_spec".
function M.place(file)
  return file:match "spec/([%w_/]+)%.lua$"
end

-- Returns the first requirement of |file| that this configuration does not meet; nil if it meets
-- all.
function M.missing(file)
  local text = assert(read_file(file))
  for need in (text:match "\n%-%- Needs: ([^\n]*)%.\n" or ""):gmatch "[^%s,][^,]*" do
    if MISSING[need] == nil then error(file .. ": unknown need: " .. need, 0) end
    if MISSING[need] then return need end
  end
  if has_no_nginx and (text:find "%f[%w]Nginx%f[^%w]" or text:find "with_nginx"
    or text:find "start_nginx") then
    return "nginx with its Lua module"
  end
end

-- ---- settings of clients --------------------------------------------------

local certs, tls

-- Returns the TLS options of a secure etcd for Etcd.start; nil in a plain configuration.
function M.tls()
  if M.is_secure and not tls then
    certs = Certs.new()
    local cast = certs:cast()
    -- The common name of `client` is not the name of a user: only the password identifies a user.
    tls = {
      ca = cast.ca.cert, cert = cast.server.cert, key = cast.server.key, client = cast.client,
    }
  end
  return tls
end

-- Returns an environment for proc that unsets etcdctl's variables.
function M.no_variables()
  local env = {}
  for _, name in ipairs(VARIABLES) do env[name] = false end
  return env
end

-- Returns an environment for proc with which a client reaches |endpoints|.
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

-- Sets the variables |env| in this process, and so in its children.
function M.export(env)
  for name, value in pairs(env) do
    if value then uv.os_setenv(name, value) else uv.os_unsetenv(name) end
  end
end

-- ---- start and end ----------------------------------------------------------

-- Returns the version of etcd, such as "3.7.3".
function M.etcd_version()
  return (proc.run { "etcd", "--version" }):match "etcd Version: (%S+)"
end

-- Returns a description of the configuration.
function M.describe()
  local version = M.etcd_version()
  return ("etcd %s, %d member%s, %s"):format(version, M.members, M.members > 1 and "s" or "",
    M.is_secure and "client certificates and passwords" or "plain")
end

-- Removes the certificates.
function M.remove()
  if certs then certs:remove() end
  certs, tls = nil, nil
end

return M
