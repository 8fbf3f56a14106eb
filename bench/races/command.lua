-- Compares `etcdlock run` with `etcdctl lock`. A shell runs a command that does nothing under a
-- free lock, again and again, and counts the runs in the window. Most of the time goes into the
-- start of the program. The shell reads the time from a file, because another process would add its
-- own start.

local matrix = require "spec.support.harness.matrix"
local proc = require "spec.support.programs.proc"
local servers = require "bench.servers"
local turns = require "bench.turns"
local uv = require "luv"

local Race = {}
Race.__index = Race

local LABELS = { etcdlock = "etcdlock run", etcdctl = "etcdctl lock" }
local COMMANDS = {
  etcdlock = '"$LUA" bin/etcdlock run command/etcdlock -- true',
  etcdctl = "etcdctl lock command/etcdctl -- true",
}
-- The shell script. $0: the length of the window, in hundredths of a second. Prints how often the
-- command ran, and the time that this took, in hundredths of a second.
local SCRIPT = [[
  read_clock() {
    read -r now _ </proc/uptime
    now=${now%%.*}${now#*.}
  }
  read_clock
  from=$now count=0
  while [ $((now - from)) -lt "$0" ]; do
    %s || exit
    count=$((count + 1))
    read_clock
  done
  echo "$count $((now - from))"
]]

--- Starts an etcd; see locks.lua.
function Race.start(_, ids)
  local self = setmetatable({ ids = ids, labels = LABELS }, Race)
  self.etcd = servers.etcd()
  self.env = proc.lua_environment(matrix.no_variables())
  self.env.ETCDCTL_ENDPOINTS = self.etcd:endpoint()
  self.env.LUA = uv.exepath()
  self:round(0, { seconds = 0.3 }) -- so that the files of both programs are in the page cache
  return self
end

--- Runs a round, as in locks.lua. `more_ms` of etcdlock: by how many ms a run takes longer than
-- that of etcdctl.
function Race:round(number, command)
  local samples = turns(self.ids, number, function(id)
    local out, code, err = proc.run({
      "sh", "-c", SCRIPT:format(COMMANDS[id]), ("%.0f"):format(command.seconds * 100),
    }, { env = self.env })
    if code ~= 0 then error(out .. err, 0) end
    local count, hundredths = out:match "^(%d+) (%d+)\n$"
    return { rate = count / hundredths * 100 }
  end)
  local ours, theirs = samples.etcdlock, samples.etcdctl
  ours.more_ms = (1 / ours.rate - 1 / theirs.rate) * 1000
  return samples
end

function Race:stop()
  self.etcd:stop()
end

return Race
