-- The servers of the benchmark. Each is private to a row and listens on a free port.

local Etcd = require "spec.support.servers.etcd"
local ports = require "spec.support.servers.port"
local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"
local wait = require "spec.support.harness.wait"

local M = {}

--- Starts an etcd as in production: with fsync, and with etcd's default heartbeat interval and
-- election timeout. The specs run without fsync and with shorter periods, to save time.
function M.etcd()
  return Etcd.start {
    args = {
      "--unsafe-no-fsync=false", "--heartbeat-interval", "100", "--election-timeout", "1000",
    },
  }
end

local Redis = {}
Redis.__index = Redis

function Redis:endpoint()
  return "127.0.0.1:" .. self.port
end

function Redis:stop()
  proc.destroy(self.process)
end

--- Starts a Redis. The Unix socket `socket` also leads to it. If |fsync|, Redis answers a write
-- when the write is on the disk, as etcd does. Otherwise it writes nothing to the disk.
function M.redis(fsync)
  local dir = temporary.directory()
  local self = setmetatable({ port = ports.free(), socket = dir .. "/redis.sock" }, Redis)
  self.process = proc.spawn {
    "redis-server", "--port", self.port, "--unixsocket", self.socket, "--dir", dir, "--save", "",
    "--appendonly", fsync and "yes" or "no", "--appendfsync", "always",
  }
  wait.eventually(function()
    return proc.run { "redis-cli", "-p", self.port, "PING" } == "PONG\n"
  end, 20, "Redis answers")
  return self
end

--- Starts a Redis that answers a write when the write is on the disk.
function M.redis_fsync()
  return M.redis(true)
end

return M
