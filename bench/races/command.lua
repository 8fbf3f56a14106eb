-- `etcdlock run` beside `etcdctl lock`: a command that does nothing, under a free lock, again and
-- again. Most of it is the start of the program. A shell counts how often it is done in the window,
-- and reads the time without starting anything itself.

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
-- $0 hundredths of a second long; tells how often it was done, and in how many.
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

--- As that of locks.lua.
function Race.start(_, ids)
  local self = setmetatable({ ids = ids, labels = LABELS }, Race)
  self.etcd = servers.etcd()
  self.env = proc.lua_environment(matrix.no_variables())
  self.env.ETCDCTL_API, self.env.ETCDCTL_ENDPOINTS = "3", self.etcd:endpoint()
  self.env.LUA = uv.exepath()
  self:round(0, { seconds = 0.3 }) -- their files are in memory then
  return self
end

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
