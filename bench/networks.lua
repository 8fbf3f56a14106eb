-- Measures etcdlock beside `etcdctl lock` on slow and faulty networks and disks.
--
--   make networks [ROWS="rtt-700/ haproxy"] [ROUNDS=3]
--
-- In each row, `etcdlock run` and `etcdctl lock` run a command under a free lock, ROUNDS times for
-- each TTL, in one cluster. The columns are the seconds until the command runs, the median, and
-- how many commands still run, with the key of their lock in etcd, after ten TTLs. A row ends with
-- "defeated" if etcdlock kept fewer holds, or with "slower" if its median is above 1.5 times
-- etcdctl's plus 0.1 s. ROWS are parts of the titles of rows. The rows run in processes of their
-- own, JOBS (6) at a time.
--
-- It needs root, strace, haproxy and /dev/net/tun: see line.py.

local Certs = require "spec.support.servers.certs"
local Etcd = require "spec.support.servers.etcd"
local NameServer = require "spec.support.servers.name_server"
local matrix = require "spec.support.harness.matrix"
local measure = require "bench.measure"
local ports = require "spec.support.servers.port"
local proc = require "spec.support.programs.proc"
local program = require "bench.program"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"
local wait = require "spec.support.harness.wait"
local write_file = require "bench.write_file"

local ROUNDS, JOBS = tonumber(os.getenv "ROUNDS") or 3, tonumber(os.getenv "JOBS") or 6
local TTLS, HELD_FOR = { 5, 10 }, 10 -- seconds, and TTLs
local PATIENCE = 60 -- seconds to wait for the first lock
local PAUSE = 0.5 -- seconds between the starts of clients, so that they do not delay each other

-- ---- rows -------------------------------------------------------------------------

-- Fields of a row:
--   rtt, loss  round trip in ms, lost packets in percent
--   forget     seconds after which a firewall forgets an idle connection
--   disk       ms that each fdatasync of etcd takes longer
--   tls        true: with certificates
--   down       "kill", "pause": HAProxy is in front of three members, the last of which is down
--   check      options of HAProxy for each member
--   dns        etcd has a host name, and these are the fields of its name servers
local rows = {}

local function row(title, fields)
  fields.title = title
  fields.loss, fields.forget, fields.disk = fields.loss or 0, fields.forget or 0, fields.disk or 0
  rows[#rows + 1] = fields
end

for _, tls in ipairs { false, true } do
  for _, disk in ipairs(tls and { 0 } or { 0, 300, 700 }) do
    for _, loss in ipairs { 0, 1 } do
      for _, rtt in ipairs { 0, 100, 300, 500, 700, 1000 } do
        row(("rtt-%d/loss-%d/disk-%d%s"):format(rtt, loss, disk, tls and "/tls" or ""),
          { rtt = rtt, loss = loss, disk = disk, tls = tls })
      end
    end
  end
end

for _, forget in ipairs { 1, 3 } do
  row("firewall-" .. forget, { rtt = 10, forget = forget })
end

local HAPROXY = [[
defaults
  mode tcp
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  option redispatch
listen etcd
  bind %s
]]

for _, down in ipairs { "kill", "pause" } do
  row("haproxy-" .. down, { rtt = 10, down = down, check = "" })
  row("haproxy-" .. down .. "-check", { rtt = 10, down = down, check = "check" })
end

row("dns-slow-1", { dns = { { delay = 1 } } })
row("dns-slow-3", { dns = { { delay = 3 } } })
row("dns-deaf-to-ipv6", { dns = { { is_deaf_to_ipv6 = true } } })
row("dns-first-silent", { dns = { { is_silent = true }, {} } })

-- ---- the servers of a row -----------------------------------------------------------

-- Starts a line with the properties of |it|. Returns the address at which a server listens, and the
-- one to which clients connect.
local function start_line(it)
  local line = proc.talk { "python3", "bench/line.py", it.rtt, it.loss, it.forget }
  return line:expect "^(%S+) (%S+)"
end

-- Makes each fdatasync of the process |pid| take |ms| longer.
local function slow_disk(pid, ms)
  local strace = proc.talk {
    "strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync",
    "-e", ("inject=fdatasync:delay_exit=%d"):format(ms * 1000), "-p", ("%d"):format(pid),
  }
  wait.eventually(function() return strace:errors():find "attached" end, 10, "strace")
end

-- Takes the last member of |etcd| down, and starts HAProxy at |address| in front of |etcd|. Returns
-- the port.
local function start_haproxy(it, etcd, address)
  local config, port = temporary.directory() .. "/haproxy.cfg", ports.free()
  local text = { HAPROXY:format(address .. ":" .. port) }
  for i, member in ipairs(etcd.members) do
    text[#text + 1] = ("  server m%d %s:%s %s\n"):format(i, member.host, member.port, it.check)
  end
  write_file(config, table.concat(text))
  etcd[it.down](etcd, 3)
  proc.talk { "haproxy", "-db", "-f", config }
  return port
end

-- Starts the name servers of |it|. Returns the begin of a command line that makes a program ask
-- them.
local function start_name_servers(it, number)
  local servers = {}
  for i, fields in ipairs(it.dns) do
    local server = assert(NameServer.start(("127.0.%d.%d"):format(number, i)))
    for name, value in pairs(fields) do server[name] = value end
    servers[i] = server
  end
  return NameServer.command(servers)
end

-- Returns the cluster of |it|, the environment of its clients, and how their command lines begin.
local function start_servers(it, number)
  local server, address = "127.0.0.1", "127.0.0.1"
  if it.rtt then server, address = start_line(it) end
  local tls = false
  if it.tls then
    local files = Certs.new()
    local cast = files:cast()
    local cert = files:issue(cast.ca, "both", { hosts = "IP:" .. server .. ",IP:" .. address })
    tls = { ca = cast.ca.cert, cert = cert.cert, key = cert.key, client = cast.client }
  end
  local etcd = Etcd.start {
    members = it.down and 3, host = not it.down and server or nil, tls = tls,
    args = {
      "--heartbeat-interval", "100", "--election-timeout", "1000",
      it.disk > 0 and "--unsafe-no-fsync=false" or nil,
    },
  }
  if it.disk > 0 then slow_disk(etcd:pid(), it.disk) end
  local port = it.down and start_haproxy(it, etcd, server) or etcd.members[1].port
  local env = matrix.no_variables()
  for name, value in pairs(etcd.env) do env[name] = value end
  local host, argv = address, {}
  if it.dns then host, argv = "etcd.test", start_name_servers(it, number) end
  env.ETCDCTL_ENDPOINTS = ("%s://%s:%s"):format(tls and "https" or "http", host, port)
  return etcd, env, argv
end

-- ---- the clients of a row -----------------------------------------------------------

local COMMANDS = {
  etcdlock = function(name, ttl)
    return { uv.exepath(), "bin/etcdlock", "run", "--ttl", ttl, name, "--" }
  end,
  etcdctl = function(name, ttl) return { "etcdctl", "lock", "--ttl", ttl, name, "--" } end,
}

-- The command under the lock: prints a line, and runs as long as its client.
local COMMAND = "echo granted; while kill -0 $PPID 2>/dev/null; do sleep 1; done"

local function start(run, env, prefix)
  local argv = {}
  for _, word in ipairs(prefix) do argv[#argv + 1] = word end
  for _, word in ipairs(COMMANDS[run.client](run.name, run.ttl)) do argv[#argv + 1] = word end
  for _, word in ipairs { "sh", "-c", COMMAND } do argv[#argv + 1] = word end
  run.from, run.child = wait.now(), proc.talk(argv, proc.lua_environment(env))
end

-- Looks at |run|. Returns true when all is known about it.
local function look(run, etcd)
  local now = wait.now()
  local has_ended = run.child.process.code ~= nil
  if not run.first and run.child.lines[1] then run.first = now - run.from end
  if not run.first then return has_ended or now > run.from + PATIENCE end
  if now < run.from + run.first + HELD_FOR * run.ttl then
    if has_ended then run.lost = now - run.from - run.first end
    return has_ended
  end
  run.is_kept = #etcd:keys(run.name .. "/") == 1
  return true
end

local function run_all(it, number)
  local etcd, env, prefix = start_servers(it, number)
  local runs = {}
  for i = 1, ROUNDS do
    for _, ttl in ipairs(TTLS) do
      for client in pairs(COMMANDS) do
        runs[#runs + 1] = { client = client, ttl = ttl, name = ("%s/%d/%d"):format(client, ttl, i) }
      end
    end
  end
  local next_at, open = wait.now(), #runs
  while open > 0 do
    wait.sleep(0.01)
    for _, run in ipairs(runs) do
      if not run.child and wait.now() >= next_at then
        start(run, env, prefix)
        next_at = run.from + PAUSE
      end
      if run.child and not run.is_over and look(run, etcd) then
        run.is_over, open = true, open - 1
        if not run.is_kept then
          io.stderr:write(("%s: %s: %s\n"):format(it.title, run.name, run.child:errors()))
        end
      end
    end
  end
  return runs
end

-- ---- reports ------------------------------------------------------------------------

-- Returns the median of the seconds until the first lock (nil: none came), and how many holds were
-- kept.
local function summary(runs, client, ttl)
  local times, kept = {}, 0
  for _, run in ipairs(runs) do
    if run.client == client and run.ttl == ttl then
      times[#times + 1] = run.first
      if run.is_kept then kept = kept + 1 end
    end
  end
  return times[1] and measure.spread(times).median, kept
end

local function report(it, runs)
  local cells, verdict = {}, ""
  for _, ttl in ipairs(TTLS) do
    local ours, kept = summary(runs, "etcdlock", ttl)
    local theirs, theirs_kept = summary(runs, "etcdctl", ttl)
    cells[#cells + 1] = ("%5s %d/%d  %5s %d/%d"):format(
      ours and ("%.1f"):format(ours) or "never", kept, ROUNDS,
      theirs and ("%.1f"):format(theirs) or "never", theirs_kept, ROUNDS)
    if kept < theirs_kept then
      verdict = "defeated"
    elseif ours and theirs and ours > 1.5 * theirs + 0.1 then
      verdict = verdict == "" and "slower" or verdict
    end
  end
  print(("%-26s  %s  %s"):format(it.title, table.concat(cells, "    "), verdict))
end

-- Runs the wanted rows, JOBS at a time, each in a process that runs this program.
local function run_rows()
  print(("%-26s  TTL 5: etcdlock   etcdctl    TTL 10: etcdlock  etcdctl"):format "")
  local waiting, running = {}, {}
  for _, it in ipairs(rows) do
    if program.is_wanted(it.title) then table.insert(waiting, it.title) end
  end
  while waiting[1] or next(running) do
    while waiting[1] and #running < JOBS do
      running[#running + 1] = proc.talk_lua("bench/networks.lua", { table.remove(waiting, 1) })
    end
    wait.sleep(0.1)
    for i = #running, 1, -1 do
      local child = running[i]
      if child.process.code then
        io.stdout:write(child.out.text)
        io.stderr:write(child:errors())
        table.remove(running, i)
      end
    end
  end
end

program.run(function()
  if not arg[1] then return run_rows() end
  for i, it in ipairs(rows) do
    if it.title == arg[1] then report(it, run_all(it, i)) end
  end
end)
