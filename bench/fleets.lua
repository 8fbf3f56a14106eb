-- Measures fleets of clients that log in with a password at the same time, beside etcd's Go client.
--
--   make fleets [ROWS="start-90 pause"] [ETCD=3.6] [ENTRANTS="etcdlock go"]
--
-- etcd has users, and the default bcrypt cost except in the rows "cost". The clients of a row run
-- in up to three processes. The columns are the seconds until the last client holds its lock (at
-- most about 60), how many clients hold theirs, and how many Authenticates etcd has received for
-- each client. The next columns are of the two TTLs from the begin of the event of the row: holds
-- that were lost, Authenticates, other requests. In the rows "busy", four processes per core use
-- all processor time that they get. ROWS are parts of the titles.

local Certs = require "spec.support.servers.certs"
local Etcd = require "spec.support.servers.etcd"
local etcdlock = require "etcdlock"
local http = require "socket.http"
local proc = require "spec.support.programs.proc"
local program = require "bench.program"
local secured = require "spec.support.servers.secured"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local PROCESSES, TTL = 3, 10
local PATIENCE = 60 -- seconds to wait until each client holds its lock
local PAUSE = 3 -- seconds for which etcd stands still
local KEYS, BYTES = 40000, 4096 -- number and size of the values in a full etcd

-- ---- rows -------------------------------------------------------------------------

-- Fields of a row: clients, event (a name of EVENTS; nil: none), jwt, cost (of bcrypt), busy,
-- members (1), and full: etcd has KEYS keys.
local rows = {}

local function row(title, fields)
  for _, load in ipairs { "quiet", "busy" } do
    local it = { title = title .. "/" .. load, busy = load == "busy" }
    for name, value in pairs(fields) do it[name] = value end
    rows[#rows + 1] = it
  end
end

for _, clients in ipairs { 12, 30, 90, 200 } do row("start-" .. clients, { clients = clients }) end
for _, clients in ipairs { 12, 45 } do
  row("pause-" .. clients, { clients = clients, event = "pause" })
  row("user-add-" .. clients, { clients = clients, event = "user-add", jwt = true })
end
for _, event in ipairs { "defrag", "compact", "snapshot", "range" } do
  row(event .. "-30", { clients = 30, event = event, full = true })
end
row("catch-up-30", { clients = 30, event = "catch-up", members = 3 })
row("cluster-90", { clients = 90, members = 3 })
for _, cost in ipairs { 14, 15, 16 } do row("cost-" .. cost, { clients = 1, cost = cost }) end

-- ---- etcd ---------------------------------------------------------------------------

local function jwt_arguments()
  local files = Certs.new()
  local key, public = files:key "rsa", files:path "public.pem"
  proc.run { "openssl", "pkey", "-in", key, "-pubout", "-out", public }
  return ("--auth-token=jwt,pub-key=%s,priv-key=%s,sign-method=RS256,ttl=300s"):format(public, key)
end

-- Writes |count| values to |etcd|, 100 in a request.
local function fill(etcd, count)
  local client = assert(etcdlock.connect {
    endpoints = etcd:endpoints(function(member) return not member.paused end), ttl = 60,
    user = "root", password = secured.ROOT,
  })
  local lock, value = assert(client:lock("fill", { timeout = 60 })), ("v"):rep(BYTES)
  for first = 1, count, 100 do
    local puts = {}
    for i = first, first + 99 do puts[#puts + 1] = { "put", ("other/%d"):format(i), value } end
    wait.eventually(function() return lock:txn(puts) end, 30, "an answer, also in an election")
  end
  client:close()
end

-- Starts etcdctl as root, without its output.
local function start_ctl(etcd, ...)
  return proc.talk({
    "sh", "-c", 'exec "$@" >/dev/null', "sh", "etcdctl", "--command-timeout=60s",
    "--endpoints", etcd:endpoint(), "--user", "root:" .. secured.ROOT, ...
  }, { ETCDCTL_API = "3" })
end

local function start_etcd(it)
  local etcd = Etcd.start {
    tls = false, members = it.members,
    args = {
      "--heartbeat-interval=100", "--election-timeout=1000",
      "--bcrypt-cost=" .. (it.cost or 10), it.jwt and jwt_arguments() or nil,
    },
  }
  secured.secure(etcd, "p")
  if it.full then fill(etcd, KEYS) end
  return etcd
end

-- Returns how many Authenticates, and how many other requests, the members of |etcd| have received.
-- Each message of a stream counts as a request.
local function received(etcd)
  local logins, others = 0, 0
  for _, member in ipairs(etcd.members) do
    local text = member.paused and "" or http.request(member.metrics .. "/metrics") or ""
    for labels, count in text:gmatch "\ngrpc_server_msg_received_total{([^\n]*)} (%d+)" do
      if labels:find '"Authenticate"' then
        logins = logins + count
      else
        others = others + count
      end
    end
  end
  return logins, others
end

-- Starts processes that use all processor time that they get.
local function take_processors()
  for _ = 1, 4 * uv.available_parallelism() do proc.talk { "sh", "-c", "while :; do :; done" } end
end

local EVENTS = {
  pause = function(etcd)
    etcd:pause(1)
    wait.sleep(PAUSE)
    etcd:resume(1)
  end,
  ["user-add"] = function(etcd)
    start_ctl(etcd, "user", "add", "another", "--new-user-password", "word")
  end,
  defrag = function(etcd) start_ctl(etcd, "defrag") end,
  compact = function(etcd)
    fill(etcd, KEYS)
    start_ctl(etcd, "compact", "--physical", ("%d"):format(etcd:revision()))
  end,
  snapshot = function(etcd)
    for i = 1, 3 do
      start_ctl(etcd, "snapshot", "save", ("%s/snapshot%d"):format(temporary.directory(), i))
    end
  end,
  range = function(etcd)
    for _ = 1, 6 do
      start_ctl(etcd, "get", "--prefix", "other/", "--write-out=fields", "--keys-only")
      start_ctl(etcd, "get", "--prefix", "other/1", "--write-out=fields")
    end
  end,
  ["catch-up"] = function(etcd)
    etcd:pause(1)
    fill(etcd, KEYS / 8)
    wait.sleep(PAUSE)
    etcd:resume(1)
  end,
}

-- ---- clients ------------------------------------------------------------------------

local COMMANDS = {
  etcdlock = { uv.exepath(), "bench/peers/fleet.lua" },
  go = { "build/bench/go", "fleet" },
}

local function start_clients(entrant, etcd, it)
  local children, left = {}, it.clients
  for i = 1, math.min(PROCESSES, it.clients) do
    local count = math.ceil(left / (math.min(PROCESSES, it.clients) - i + 1))
    local argv = { table.unpack(COMMANDS[entrant]) }
    for _, word in ipairs { etcd:endpoints(), "p" .. i, ("%d"):format(count), TTL } do
      argv[#argv + 1] = tostring(word)
    end
    left = left - count
    children[i] = proc.talk(argv, { FLEET_PASSWORD = secured.PASSWORD })
  end
  return children
end

-- Counts the lines of |children| that begin with |word|.
local function count(children, word)
  local n = 0
  for _, child in ipairs(children) do
    for _, line in ipairs(child.lines) do
      if line:find("^" .. word) then n = n + 1 end
    end
  end
  return n
end

local function measure(it, entrant)
  local etcd = start_etcd(it)
  if it.busy then take_processors() end
  local before, from = received(etcd), wait.now()
  local children = start_clients(entrant, etcd, it)
  local held, took
  repeat
    wait.sleep(0.05)
    held, took = count(children, "held"), wait.now() - from
  until held == it.clients or took > PATIENCE
  local logins, others = received(etcd)
  local started, lost = logins - before, ""
  if it.event and held > 0 then
    local until_time = wait.now() + 2 * TTL
    EVENTS[it.event](etcd)
    wait.sleep(math.max(until_time - wait.now(), 0))
    local all_logins, all = received(etcd)
    lost = ("%3d lost, %3d Authenticates, %5d requests"):format(
      count(children, "lost"), all_logins - logins, all - others)
  end
  for _, child in ipairs(children) do
    for line in child:errors():gmatch "[^\n]+" do
      io.stderr:write(("%s: %s: %s\n"):format(it.title, entrant, line))
    end
  end
  print(("%-20s %-9s %5.1f s  %3d of %-3d  %4.1f  %s"):format(
    it.title, entrant, took, held, it.clients, started / it.clients, lost))
  proc.destroy_children()
  etcd:stop()
end

program.run(function()
  for _, it in ipairs(rows) do
    for entrant in program.words("ENTRANTS", "etcdlock go") do
      if program.is_wanted(it.title) then measure(it, entrant) end
    end
  end
end)
