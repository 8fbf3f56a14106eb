-- `etcdlock run` beside `etcdctl lock`: a command that does nothing, under a free lock, again and
-- again. Most of it is the start of the program.

local proc = require "spec.support.programs.proc"
local servers = require "bench.servers"
local turns = require "bench.turns"
local uv = require "luv"

local Race = {}
Race.__index = Race

local LABELS = { etcdlock = "etcdlock run", etcdctl = "etcdctl lock" }
local COMMANDS = {
  etcdlock = { uv.exepath(), "bin/etcdlock", "run", "command/etcdlock", "--", "true" },
  etcdctl = { "etcdctl", "lock", "command/etcdctl", "--", "true" },
}

--- As that of locks.lua.
function Race.start(_, ids)
  local self = setmetatable({ ids = ids, labels = LABELS }, Race)
  self.etcd = servers.etcd()
  self.options = { env = { ETCDCTL_API = "3", ETCDCTL_ENDPOINTS = self.etcd:endpoint() } }
  self:round(0, { seconds = 0.3 }) -- their files are in memory then
  return self
end

function Race:round(number, command)
  local samples = turns(self.ids, number, function(id)
    local count, took, from = 0, 0, uv.hrtime()
    while took < command.seconds do
      local out, code, err = proc.run(COMMANDS[id], self.options)
      if code ~= 0 then error(out .. err, 0) end
      count, took = count + 1, (uv.hrtime() - from) / 1e9
    end
    return { rate = count / took, broken = 0 }
  end)
  local ours, theirs = samples.etcdlock, samples.etcdctl
  ours.more_ms = (1 / ours.rate - 1 / theirs.rate) * 1000
  return samples
end

function Race:stop()
  self.etcd:stop()
end

return Race
