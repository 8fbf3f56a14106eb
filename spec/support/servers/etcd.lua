-- Real etcd members on free ports of this host, with their data in a
-- temporary directory.

local cell = require "spec.support.harness.cell"
local cjson = require "cjson"
local metric = require "spec.support.servers.metric"
local mime = require "mime"
local ports = require "spec.support.servers.port"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local tasks = require "spec.support.programs.tasks"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local Etcd = {}
Etcd.__index = Etcd

local started = {}

-- etcd's own periods, 0.1 s and 1 s, are for networks; with these nobody waits a
-- second for a leader. One member elects itself; several share this machine.
local ALONE = { "--heartbeat-interval", "10", "--election-timeout", "100" }
local TOGETHER = { "--heartbeat-interval", "50", "--election-timeout", "500" }

-- ---- this host -----------------------------------------------------------------

-- Can an etcd be started there? Not every host has IPv6.
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
    "etcd",
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
      -- Passwords shall cost the specs little.
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
  -- etcd puts its unix sockets there.
  member.process = proc.spawn(argv, { nil, log, log }, { cwd = self.dir })
  uv.fs_close(log)
end

local function log_of(member)
  return (read_file(member.log) or ""):sub(-2000)
end

local function await_health(self, member)
  wait.eventually(function()
    if member.process.code then
      error(member.name .. " has ended:\n" .. log_of(member), 0)
    end
    return is_listening(member.host, member.port)
  end, 10, member.name .. " listens")
  wait.eventually(function()
    local _, code, err = proc.run({
      "etcdctl", "--endpoints", member.endpoint, "--insecure-skip-tls-verify",
      "endpoint", "health",
    }, { env = self.env })
    return code == 0, err
  end, 20, member.name .. " is healthy")
end

-- What etcdctl finds in its environment: who it is to a cluster with |tls|, and
-- nothing of what the suite's clients find there.
local function ctl_environment(tls)
  local env = cell.no_variables()
  env.ETCDCTL_API = "3"
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
  return {
    name = name,
    port = port,
    host = host,
    endpoint = endpoint,
    listen = endpoint .. (socket or ""),
    socket = self.dir .. "/localhost:" .. port,
    peer = "http://127.0.0.1:" .. ports.free(),
    metrics = "http://127.0.0.1:" .. ports.free(),
    data = self.dir .. "/" .. name,
    log = self.dir .. "/" .. name .. ".log",
  }
end

-- Starts what |opts| of Etcd.start want, and returns it before it is healthy.
local function launch(opts)
  local tls = opts.tls
  if tls == nil then tls = cell.tls() end
  local self = setmetatable({
    args = opts.args or {},
    tls = tls,
    env = ctl_environment(tls),
    members = {},
  }, Etcd)
  local temporary = os.getenv "TMPDIR" or "/tmp"
  started[self] = true
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

-- Returns |self| when all its members are healthy, else stops it: nil, why.
local function settle(self, opts)
  local ok, failure = pcall(function()
    for _, member in ipairs(self.members) do await_health(self, member) end
    if opts.tls == nil and cell.is_secure then self:enable_auth() end
  end)
  if ok then return self end
  self:stop()
  return nil, failure
end

-- Starts a cluster and returns it healthy. |opts|: members (1), args (more
-- arguments for every member), tls: client URLs are https, with the files ca,
-- cert and key; etcdctl is client = { cert, key }, and clients without a
-- certificate by that CA are refused unless client_auth is false. host: the
-- address where clients are served ("127.0.0.1"). unix: also at a unix socket.
-- In a secure cell, if tls is nil, clients need certificates and passwords, and
-- may touch what Etcd.allow_all and allow say; with false they are welcome.
function Etcd.start(opts)
  return Etcd.start_all({ opts or {} })[1]
end

-- Starts several at the same time, one for each of the options in |list|.
function Etcd.start_all(list)
  local all = {}
  for i, opts in ipairs(list) do all[i] = launch(opts) end
  for i, opts in ipairs(list) do
    local self, failure = settle(all[i], opts)
    -- Somebody else may have been faster with a port.
    for _ = 1, 2 do
      if self or not failure:find "address already in use" then break end
      self, failure = settle(launch(opts), opts)
    end
    all[i] = self or error(failure, 2)
  end
  return all
end

-- The files of |tls| from the next start on.
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

-- Stops all clusters but |spared|.
function Etcd.stop_all(spared)
  for etcd in pairs(started) do
    if etcd ~= spared then etcd:stop() end
  end
end

-- The address of member |i| (1).
function Etcd:endpoint(i)
  return self.members[i or 1].endpoint
end

-- The path of member |i|'s (1) unix socket.
function Etcd:socket(i)
  return self.members[i or 1].socket
end

-- The addresses of all members, or of those only that |is_wanted|, with commas
-- between them.
function Etcd:endpoints(is_wanted)
  local list = {}
  for _, member in ipairs(self.members) do
    if not is_wanted or is_wanted(member) then list[#list + 1] = member.endpoint end
  end
  return table.concat(list, ",")
end

-- Does |message| say which member it is about?
function Etcd:is_named(message)
  for _, member in ipairs(self.members) do
    if message:find(member.endpoint:match "//(.*)", 1, true) then return true end
  end
  return false
end

function Etcd:pid(i)
  return self.members[i or 1].process.pid
end

-- The numbers that |i| stands for: all members' if it is nil.
local function numbers(self, i)
  local list = { i }
  for k = 1, i and 0 or #self.members do list[k] = k end
  return list
end

-- Kills member |i| (all) without warning.
function Etcd:kill(i)
  for _, k in ipairs(numbers(self, i)) do proc.destroy(self.members[k].process) end
end

-- Is each thread of |pid| stopped?
local function is_stopped(pid)
  for task, stat in pairs(tasks(pid, "stat")) do
    if not stat:find "%) T" then return false, "thread " .. task .. " runs" end
  end
  return true
end

-- Stops member |i| (all) in its tracks, and lets it go on.
function Etcd:pause(i)
  for _, k in ipairs(numbers(self, i)) do
    assert(uv.kill(self:pid(k), "sigstop"))
    self.members[k].paused = true
  end
  -- The signal's work is done some time after it is sent.
  for _, k in ipairs(numbers(self, i)) do
    wait.eventually(function() return is_stopped(self:pid(k)) end, 5, "etcd is stopped")
  end
end

function Etcd:resume(i)
  for _, k in ipairs(numbers(self, i)) do
    assert(uv.kill(self:pid(k), "sigcont"))
    self.members[k].paused = false
  end
end

-- Adds a member that only learns, and returns its address.
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

-- Starts member |i| (all) again, killed before if need be, with its data and
-- ports. Returns when it is healthy, or at once if |opts.wait| is false.
function Etcd:restart(i, opts)
  self:kill(i)
  for _, k in ipairs(numbers(self, i)) do
    self.members[k].paused = false
    spawn(self, self.members[k])
  end
  if opts and opts.wait == false then return end
  for _, k in ipairs(numbers(self, i)) do await_health(self, self.members[k]) end
end

-- Has the one member begin anew, on the same ports, without its data. Its cluster id
-- is the same, unless it |is_another|.
function Etcd:wipe(is_another)
  self:kill()
  proc.run { "rm", "-rf", self.members[1].data }
  if is_another then self.args = { "--initial-cluster-token", "another" } end
  self:restart()
end

-- ---- what is in it ----------------------------------------------------------

local function is_running(member)
  return not member.process.code and not member.paused
end

-- Runs etcdctl with |command| and |...| against a member that runs, or against
-- all of them where that makes a difference; returns standard output, exit code,
-- standard error.
function Etcd:ctl(command, ...)
  local endpoints = self:endpoints(is_running)
  if command ~= "endpoint" and command ~= "defrag" then
    -- A token of one member may not be known to the others yet.
    endpoints = endpoints:match "[^,]*"
  end
  -- etcdctl gives up after 5 s, which a crowd on a busy machine may take.
  return proc.run({ "etcdctl", "--command-timeout=30s", "--endpoints", endpoints, command, ... },
    { env = self.env })
end

local function ask(self, ...)
  local out, code, err = self:ctl(...)
  if code ~= 0 then error("etcdctl " .. table.concat({ ... }, " ") .. ": " .. err, 3) end
  return out
end

local function range(self, ...)
  return cjson.decode(ask(self, "get", "--write-out", "json", ...)).kvs or {}
end

-- The keys that start with |prefix|, in order.
function Etcd:keys(prefix)
  local keys = range(self, "--prefix", "--keys-only", prefix)
  for i, kv in ipairs(keys) do keys[i] = mime.unb64(kv.key) end
  return keys
end

-- Waits until |count| keys start with |prefix|: of a lock, its holders and waiters.
-- Fails if that takes longer than |seconds| (5).
function Etcd:await_keys(prefix, count, seconds)
  wait.eventually(function()
    local keys = self:keys(prefix)
    return #keys == count, table.concat(keys, " ")
  end, seconds, count .. " keys of " .. prefix)
end

-- The value and the create revision of |key|, or nil.
function Etcd:get(key)
  local kv = range(self, key)[1]
  if kv then return mime.unb64(kv.value or ""), kv.create_revision end
end

function Etcd:put(key, value)
  ask(self, "put", "--", key, value)
end

function Etcd:del(key)
  ask(self, "del", key)
end

-- The store's revision.
function Etcd:revision()
  return cjson.decode(ask(self, "get", "--write-out", "json", "-")).header.revision
end

-- How many watches its members have.
function Etcd:watchers()
  return metric(self, "etcd_debugging_mvcc_watcher_total")
end

-- The ids of all leases, as lower-case hex, not padded (etcdctl pads).
function Etcd:leases()
  local ids = {}
  -- A member lists the leases that it knows of. A read has it catch up before.
  if self.members[2] then ask(self, "get", "-") end
  for id in ask(self, "lease", "list"):gmatch "\n0*(%x+)" do ids[#ids + 1] = id end
  return ids
end

function Etcd:revoke(lease)
  ask(self, "lease", "revoke", lease)
end

-- Ends all leases there are; one may end by itself meanwhile.
function Etcd:revoke_all()
  for _, lease in ipairs(self:leases()) do self:ctl("lease", "revoke", lease) end
end

-- ---- who may do what --------------------------------------------------------

local allowed = {} -- prefixes

-- Has the cell's user use keys that start with |prefix| here, if there are
-- users at all.
function Etcd:allow(prefix)
  if self.has_users then
    ask(self, "role", "grant-permission", "--prefix=true", "locks", "readwrite", prefix)
  end
end

-- The same for all that run and all to come.
function Etcd.allow_all(prefix)
  allowed[#allowed + 1] = prefix
  for etcd in pairs(started) do etcd:allow(prefix) end
end

-- From now on there are root and the cell's user, whose role is for locks only.
function Etcd:enable_auth()
  ask(self, "user", "add", cell.root)
  ask(self, "user", "grant-role", "root", "root")
  ask(self, "role", "add", "locks")
  ask(self, "user", "add", cell.user)
  ask(self, "user", "grant-role", cell.user:match "^[^:]+", "locks")
  self.has_users = true
  for _, prefix in ipairs(allowed) do self:allow(prefix) end
  ask(self, "auth", "enable")
  self.env.ETCDCTL_USER = cell.root
end

return Etcd
