-- The servers of the benchmark. Each is private to a row, listens on a free port, and has its data
-- on the disk. Fields of a server: `endpoint`, `version`, pids(), stop(). An etcd also has `etcd`,
-- and, if it has one member, requests(), the number of calls and streams that it has received. A
-- Redis also has `socket`.

local Etcd = require "spec.support.servers.etcd"
local metric = require "spec.support.servers.metric"
local ports = require "spec.support.servers.port"
local proc = require "spec.support.programs.proc"
local socket = require "socket"
local temporary = require "spec.support.harness.temporary"
local wait = require "spec.support.harness.wait"

local M = {}

--- Starts an etcd as in production: with fsync, and with etcd's default heartbeat interval and
-- election timeout. The specs run without fsync and with shorter periods, to save time. If there
-- are several |members| (nil: one), they have no fsync, because they share one disk here.
function M.etcd(members)
  local etcd = Etcd.start {
    members = members,
    args = {
      "--heartbeat-interval", "100", "--election-timeout", "1000",
      not members and "--unsafe-no-fsync=false" or nil,
    },
  }
  return {
    etcd = etcd,
    endpoint = members and etcd:endpoints() or etcd:endpoint(),
    version = "etcd " .. proc.run({ "etcd", "--version" }):match "etcd Version: (%S+)",
    pids = function()
      local pids = {}
      for i in ipairs(etcd.members) do pids[i] = etcd:pid(i) end
      return pids
    end,
    requests = not members and function() return metric(etcd, "grpc_server_started_total") end,
    stop = function() etcd:stop() end,
  }
end

--- Starts three members of etcd.
function M.cluster() return M.etcd(3) end

-- Returns the server whose only process is |process|.
local function single(process, port, version)
  return {
    endpoint = "127.0.0.1:" .. port, version = version,
    pids = function() return { process.pid } end,
    stop = function() proc.destroy(process) end,
  }
end

-- Starts a Redis. It answers a write when the write is on the disk ("always"), as etcd does, or up
-- to a second before that ("everysec").
local function redis(fsync)
  local port, dir = ports.free(), temporary.directory()
  local process = proc.spawn {
    "redis-server", "--port", port, "--unixsocket", dir .. "/redis.sock", "--dir", dir,
    "--save", "", "--appendonly", "yes", "--appendfsync", fsync,
  }
  wait.eventually(function()
    return proc.run { "redis-cli", "-p", port, "PING" } == "PONG\n"
  end, 20, "Redis answers")
  local version = proc.run({ "redis-server", "--version" }):match "v=(%S+)"
  local server = single(process, port, "Redis " .. version)
  server.socket = "unix:" .. dir .. "/redis.sock" -- for nginx
  return server
end

function M.redis_everysec() return redis "everysec" end

function M.redis_always() return redis "always" end

--- Starts a ZooKeeper with its defaults: it answers a write when the write is on the disk.
function M.zookeeper()
  local port = ports.free()
  local process = proc.spawn {
    "java", "-Dzookeeper.admin.enableServer=false", "-cp", "build/java/lib/*",
    "org.apache.zookeeper.server.ZooKeeperServerMain", port, temporary.directory(),
  }
  wait.eventually(function()
    local connection = socket.connect("127.0.0.1", port)
    return connection and connection:close()
  end, 20, "ZooKeeper listens")
  local jar = proc.run { "sh", "-c", "echo build/java/lib/zookeeper-[0-9]*" }
  return single(process, port, "ZooKeeper " .. jar:match "([%d.]+)%.jar")
end

return M
