-- The servers of the comparison, private ones on free ports, which keep what they
-- are told on the disk.

local Etcd = require "spec.support.servers.etcd"
local ports = require "spec.support.servers.port"
local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"
local wait = require "spec.support.harness.wait"

local M = {}

--- An etcd as it is in production: with fsync, and with its own periods. (Those of
-- the specs are to spare them time.)
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

--- A Redis, also at the unix socket `socket`. |fsync|: it answers a write when that
-- is on the disk, as etcd does; else it keeps nothing.
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

--- The same that keeps what it answers.
function M.redis_fsync()
  return M.redis(true)
end

return M
