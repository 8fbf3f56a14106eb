-- Starts real etcd clusters on free ports of this host, with their data in a temporary directory.

local matrix = require "spec.support.harness.matrix"
local Gateway = require "spec.support.servers.gateway"
local http = require "socket.http"
local metric = require "spec.support.servers.metric"
local ports = require "spec.support.servers.port"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local tasks = require "spec.support.programs.tasks"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local Etcd = {}
Etcd.__index = Etcd

local started, last = {}, 0 -- each cluster with its number, and the number of the last one

-- Arguments in ms, for a single member and for several. etcd's defaults, 100 and 1000, would delay
-- each election by about a second. Several members share this machine and need longer periods.
local ALONE = { "--heartbeat-interval", "10", "--election-timeout", "100" }
local TOGETHER = { "--heartbeat-interval", "50", "--election-timeout", "500" }

-- ---- this host -----------------------------------------------------------------

-- Returns a true value if a server can listen at the address |host|; not every machine has IPv6.
function Etcd.can_listen(host)
  local socket = uv.new_tcp()
  local can = socket:bind(host, 0)
  socket:close()
  return can
end

local function is_listening(host, port)
  local socket, answer = uv.new_tcp(), nil
  socket:connect(host, tonumber(port), function(failure)
    answer = failure or "connected"
  end)
  wait.eventually(function() return answer end, 5, "connect to etcd")
  socket:close()
  return answer == "connected"
end

-- ---- members ----------------------------------------------------------------

local function spawn(self, member)
  local log = assert(uv.fs_open(member.log, "a", tonumber("600", 8)))
  local argv = {
    member.program or "etcd",
    "--name", member.name,
    "--data-dir", member.data,
    "--listen-client-urls", member.listen,
    "--advertise-client-urls", member.endpoint,
    "--listen-peer-urls", member.peer,
    "--initial-advertise-peer-urls", member.peer,
    "--listen-metrics-urls", member.metrics,
    "--initial-cluster", self.cluster,
    "--initial-cluster-token", self.dir,
    "--logger", "zap",
    "--log-level", "warn",
    "--unsafe-no-fsync",
  }
  if self.tls then
    local files = {
      "--cert-file", self.tls.cert, "--key-file", self.tls.key,
      -- The lowest cost, because checking passwords would slow down the specs.
      "--bcrypt-cost", "4",
    }
    if self.tls.client_auth ~= false then
      files[#files + 1] = "--client-cert-auth"
      files[#files + 1] = "--trusted-ca-file=" .. self.tls.ca
    end
    for _, value in ipairs(files) do argv[#argv + 1] = value end
  end
  for _, value in ipairs(self.members[2] and TOGETHER or ALONE) do argv[#argv + 1] = value end
  for _, value in ipairs(self.args) do argv[#argv + 1] = value end
  for _, value in ipairs(member.args or {}) do argv[#argv + 1] = value end
  -- etcd creates its unix sockets in its working directory.
  member.process = proc.spawn(argv, { nil, log, log }, { cwd = self.dir })
  uv.fs_close(log)
end

local function log_of(member)
  return (read_file(member.log) or ""):sub(-2000)
end

local function await_health(member)
  wait.eventually(function()
    if member.process.code then
      error(member.name .. " has ended:\n" .. log_of(member), 0)
    end
    return is_listening(member.host, member.port)
  end, 10, member.name .. " listens")
  wait.eventually(function()
    local body, status = http.request(member.metrics .. "/health")
    return body and body:find('"health":"true"', 1, true), body or status
  end, 20, member.name .. " is healthy")
end

-- Returns the environment for etcdctl: the client certificate for a cluster with |tls|, and none of
-- the variables for the suite's clients.
local function ctl_environment(tls)
  local env = matrix.no_variables()
  if tls then
    env.ETCDCTL_CACERT = tls.ca
    env.ETCDCTL_CERT, env.ETCDCTL_KEY = tls.client.cert, tls.client.key
  end
  return env
end

local function new_member(self, name, opts)
  local scheme, host = self.tls and "https" or "http", opts.host or "127.0.0.1"
  local port = ports.free()
  local shown = host:find ":" and "[" .. host .. "]" or host
  local endpoint = ("%s://%s:%s"):format(scheme, shown, port)
  local socket = opts.unix and (",unix%s://localhost:%s"):format(self.tls and "s" or "", port)
  -- The gateway gets its own plain address, because it has no certificate.
  local gateway = self.tls and "http://127.0.0.1:" .. ports.free()
  return {
    name = name,
    port = port,
    host = host,
    endpoint = endpoint,
    gateway = gateway or endpoint,
    listen = endpoint .. (socket or "") .. (gateway and "," .. gateway or ""),
    socket = self.dir .. "/localhost:" .. port,
    peer = "http://127.0.0.1:" .. ports.free(),
    metrics = "http://127.0.0.1:" .. ports.free(),
    data = self.dir .. "/" .. name,
    log = self.dir .. "/" .. name .. ".log",
  }
end

local function is_running(member)
  return not member.process.code and not member.paused
end

-- Returns the first running member, so that all calls use the same one: another member may not know
-- the auth token yet.
local function running_member(self)
  for _, member in ipairs(self.members) do
    if is_running(member) then return member end
  end
  error("no member of etcd runs", 0)
end

-- Starts a cluster with |opts| (see Etcd.start) and returns it before it is healthy.
local function launch(opts)
  local tls = opts.tls
  if tls == nil then tls = matrix.tls() end
  local self = setmetatable({
    args = opts.args or {},
    tls = tls,
    env = ctl_environment(tls),
    members = {},
  }, Etcd)
  self.gateway = Gateway.new(function() return running_member(self).gateway end)
  local temporary = os.getenv "TMPDIR" or "/tmp"
  last = last + 1
  started[self] = last
  self.dir = assert(uv.fs_mkdtemp(temporary .. "/etcdlock-XXXXXX"))
  local cluster = {}
  for i = 1, opts.members or 1 do
    local member = new_member(self, "m" .. i, opts)
    self.members[i] = member
    cluster[i] = member.name .. "=" .. member.peer
  end
  self.cluster = table.concat(cluster, ",")
  for _, member in ipairs(self.members) do spawn(self, member) end
  return self
end

-- Returns |self| when all its members are healthy. If one fails to start, stops the cluster and
-- returns nil and a message.
local function settle(self, opts)
  local ok, failure = pcall(function()
    for _, member in ipairs(self.members) do await_health(member) end
    if opts.tls == nil and matrix.is_secure then self:enable_auth() end
  end)
  if ok then return self end
  self:stop()
  return nil, failure
end

-- Starts a cluster and returns it when it is healthy. |opts|:
--   members  number of members (1)
--   args     further arguments for every member
--   tls      { ca, cert, key, client = { cert, key }, client_auth }: serve clients with TLS and
--            these files; etcdctl uses client. Clients without a certificate issued by ca are
--            refused unless client_auth is false. tls = false: plain. tls = nil: as the
--            configuration demands; in a secure configuration clients need certificates and
--            passwords, and can access only the prefixes passed to Etcd.allow_all and allow.
--   host     address at which the members serve clients ("127.0.0.1")
--   unix     true: serve clients also at a unix socket
function Etcd.start(opts)
  return Etcd.start_all({ opts or {} })[1]
end

-- Starts one cluster for each entry of |list| (see Etcd.start), all at the same time. Returns them
-- as a list.
function Etcd.start_all(list)
  local all = {}
  for i, opts in ipairs(list) do all[i] = launch(opts) end
  for i, opts in ipairs(list) do
    local self, failure = settle(all[i], opts)
    -- Another process may have taken a port meanwhile.
    for _ = 1, 2 do
      if self or not failure:find "address already in use" then break end
      self, failure = settle(launch(opts), opts)
    end
    all[i] = self or error(failure, 2)
  end
  return all
end

-- Makes members use the files of |tls| (see Etcd.start) from their next start on.
function Etcd:set_tls(tls)
  self.tls, self.env = tls, ctl_environment(tls)
end

-- Kills the members and removes their data; may be repeated.
function Etcd:stop()
  for _, member in ipairs(self.members) do proc.destroy(member.process) end
  if self.learner then proc.destroy(self.learner.process) end
  proc.run { "rm", "-rf", self.dir }
  started[self] = nil
end

-- Returns the number of the last cluster, for stop_all.
function Etcd.open()
  return last
end

-- Stops all clusters except |spared|, and except those up to number |from| (0).
function Etcd.stop_all(spared, from)
  for etcd, number in pairs(started) do
    if etcd ~= spared and number > (from or 0) then etcd:stop() end
  end
end

-- Returns the address of member |i| (1).
function Etcd:endpoint(i)
  return self.members[i or 1].endpoint
end

-- Returns the path of the unix socket of member |i| (1).
function Etcd:socket(i)
  return self.members[i or 1].socket
end

-- Returns the addresses of the members for which is_wanted(member) is true (nil: all), separated by
-- commas.
function Etcd:endpoints(is_wanted)
  local list = {}
  for _, member in ipairs(self.members) do
    if not is_wanted or is_wanted(member) then list[#list + 1] = member.endpoint end
  end
  return table.concat(list, ",")
end

-- Returns true if |message| contains the address of a member.
function Etcd:is_named(message)
  for _, member in ipairs(self.members) do
    if message:find(member.endpoint:match "//(.*)", 1, true) then return true end
  end
  return false
end

function Etcd:pid(i)
  return self.members[i or 1].process.pid
end

-- Returns a list of |i| only, or of all members' numbers if |i| is nil.
local function numbers(self, i)
  local list = { i }
  for k = 1, i and 0 or #self.members do list[k] = k end
  return list
end

-- Kills member |i| (nil: all) with SIGKILL.
function Etcd:kill(i)
  for _, k in ipairs(numbers(self, i)) do proc.destroy(self.members[k].process) end
end

-- Returns true if all threads of the process |pid| are stopped; else false and a message.
local function is_stopped(pid)
  for task, stat in pairs(tasks(pid, "stat")) do
    if not stat:find "%) T" then return false, "thread " .. task .. " runs" end
  end
  return true
end

-- Stops member |i| (nil: all) with SIGSTOP, until resume.
function Etcd:pause(i)
  for _, k in ipairs(numbers(self, i)) do
    assert(uv.kill(self:pid(k), "sigstop"))
    self.members[k].paused = true
  end
  -- The threads stop some time after the signal is sent.
  for _, k in ipairs(numbers(self, i)) do
    wait.eventually(function() return is_stopped(self:pid(k)) end, 5, "etcd is stopped")
  end
end

-- Continues member |i| (nil: all) after pause.
function Etcd:resume(i)
  for _, k in ipairs(numbers(self, i)) do
    assert(uv.kill(self:pid(k), "sigcont"))
    self.members[k].paused = false
  end
end

-- Makes member |i| run |program| from its next start on.
function Etcd:set_program(i, program)
  self.members[i].program = program
end

-- Adds a learner (a member without a vote) and returns its address.
function Etcd:add_learner()
  local member = new_member(self, "learner", {})
  local _, code, err = self:ctl("member", "add", member.name, "--learner", "--peer-urls",
    member.peer)
  assert(code == 0, err)
  member.args = {
    "--initial-cluster", self.cluster .. "," .. member.name .. "=" .. member.peer,
    "--initial-cluster-state", "existing",
  }
  self.learner = member
  spawn(self, member)
  wait.eventually(function() return is_listening(member.host, member.port) end, 10, "a learner")
  return member.endpoint
end

-- Kills member |i| (nil: all) if it runs, and starts it with its data and ports. Returns when it is
-- healthy, or at once if |opts.wait| is false.
function Etcd:restart(i, opts)
  self:kill(i)
  for _, k in ipairs(numbers(self, i)) do
    self.members[k].paused = false
    spawn(self, self.members[k])
  end
  if opts and opts.wait == false then return end
  for _, k in ipairs(numbers(self, i)) do await_health(self.members[k]) end
end

-- Restarts the only member on the same ports without its data. The cluster id stays the same unless
-- |is_another| is true.
function Etcd:wipe(is_another)
  self:kill()
  proc.run { "rm", "-rf", self.members[1].data }
  if is_another then self.args = { "--initial-cluster-token", "another" } end
  self:restart()
end

-- ---- data -------------------------------------------------------------------

-- Runs etcdctl with |command| and |...| for one running member; "endpoint" and "defrag" for all
-- running members. Returns standard output, exit code and standard error.
function Etcd:ctl(command, ...)
  local endpoints
  if command == "endpoint" or command == "defrag" then
    endpoints = self:endpoints(is_running)
  else
    endpoints = running_member(self).endpoint
  end
  -- etcdctl's default timeout is 5 s; a loaded etcd on a busy machine may take longer.
  return proc.run({ "etcdctl", "--command-timeout=30s", "--endpoints", endpoints, command, ... },
    { env = self.env })
end

local function ask(self, ...)
  local out, code, err = self:ctl(...)
  if code ~= 0 then error("etcdctl " .. table.concat({ ... }, " ") .. ": " .. err, 3) end
  return out
end

-- Returns the keys that start with |prefix|, in order.
function Etcd:keys(prefix)
  local keys = self.gateway:range(prefix, true)
  for i, kv in ipairs(keys) do keys[i] = kv.key end
  return keys
end

-- Waits until |count| keys start with |prefix|; the keys of a lock are those of its holders and
-- waiters. Fails after |seconds| (5).
function Etcd:await_keys(prefix, count, seconds)
  wait.eventually(function()
    local keys = self:keys(prefix)
    return #keys == count, table.concat(keys, " ")
  end, seconds, count .. " keys of " .. prefix)
end

-- Returns the value and the create revision of |key|, or nil.
function Etcd:get(key)
  local kv = self.gateway:range(key)[1]
  if kv then return kv.value, kv.create_revision end
end

-- put(key, value, lease)  sets the key, and attaches it to the lease (hex) if that is not nil
-- del(key)                deletes the key
-- revision()              returns the revision of the store
-- grant(ttl)              creates a lease with a TTL in seconds and returns its ID
-- revoke(lease)           revokes the lease
for name, method in pairs {
  put = "put", del = "delete", revision = "revision", grant = "grant", revoke = "revoke",
} do
  Etcd[name] = function(self, ...) return self.gateway[method](self.gateway, ...) end
end

-- Puts an empty value for each of |keys|, attached to |lease| (hex), with few requests.
function Etcd:put_all(keys, lease)
  self.gateway:put_all(keys, lease)
end

-- Puts the entry |key| of another program: attaches it to the lease that its name contains, which
-- is created if it does not exist. The test revokes that lease, with Etcd:revoke_all.
function Etcd:put_entry(key, value)
  local lease = key:match "/(%x+)[^/]*$"
  local exists = false
  for _, id in ipairs(self:leases()) do exists = exists or id == lease end
  if not exists then self.gateway:grant(600, lease) end
  self:put(key, value, lease)
end

-- Deletes all keys that start with |prefix|.
function Etcd:del_all(prefix)
  self.gateway:delete(prefix, true)
end

-- Returns the number of watches of all members.
function Etcd:watchers()
  return metric(self, "etcd_debugging_mvcc_watcher_total")
end

-- Returns the IDs of all leases, in lower-case hex.
function Etcd:leases()
  -- A member lists only the leases that it knows of. The read makes it apply all earlier changes.
  if self.members[2] then self:revision() end
  return self.gateway:leases()
end

-- Revokes all leases. Ignores failures, because a lease may expire meanwhile.
function Etcd:revoke_all()
  for _, lease in ipairs(self:leases()) do pcall(self.revoke, self, lease) end
end

-- ---- users and permissions --------------------------------------------------

local allowed = {} -- prefixes

-- Lets the configuration's user access keys of this etcd that start with |prefix|. Does nothing in
-- an etcd without users.
function Etcd:allow(prefix)
  if self.has_users then
    ask(self, "role", "grant-permission", "--prefix=true", "locks", "readwrite", prefix)
  end
end

-- Does the same as allow for all running and all future etcds.
function Etcd.allow_all(prefix)
  allowed[#allowed + 1] = prefix
  for etcd in pairs(started) do etcd:allow(prefix) end
end

-- Makes etcdctl and the gateway log in as |user| ("name:password").
function Etcd:log_in(user)
  self.env.ETCDCTL_USER, self.gateway.user = user, user
end

-- Adds root and the configuration's user, whose role is limited to the allowed prefixes, and
-- enables authentication.
function Etcd:enable_auth()
  ask(self, "user", "add", matrix.root)
  ask(self, "user", "grant-role", "root", "root")
  ask(self, "role", "add", "locks")
  ask(self, "user", "add", matrix.user)
  ask(self, "user", "grant-role", matrix.user:match "^[^:]+", "locks")
  self.has_users = true
  for _, prefix in ipairs(allowed) do self:allow(prefix) end
  ask(self, "auth", "enable")
  self:log_in(matrix.root)
end

return Etcd
