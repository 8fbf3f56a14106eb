-- The row `held`: one client holds 10,000 locks and is idle otherwise. bench/peers/held.lua
-- measures.

local json = require "dkjson"
local proc = require "spec.support.programs.proc"
local servers = require "bench.servers"
local uv = require "luv"

local Race = {}
Race.__index = Race

local PATIENCE = 60 -- seconds to wait until all locks are held, and for the answer to a window

--- Starts an etcd and the process; see locks.lua.
function Race.start(_, ids)
  local self = setmetatable({ ids = ids, labels = { etcdlock = "etcdlock" } }, Race)
  self.etcd = servers.etcd()
  self.child = proc.talk { uv.exepath(), "bench/peers/held.lua", self.etcd:endpoint() }
  self.child:expect("^ready$", PATIENCE)
  return self
end

function Race:round(_, command)
  self.child:send(json.encode(command))
  return { etcdlock = json.decode((self.child:expect("^{.*}$", PATIENCE))) }
end

function Race:stop()
  self.child:destroy()
  self.etcd:stop()
end

return Race
