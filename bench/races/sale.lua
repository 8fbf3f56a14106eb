-- The row `sale`: the 500 nginx requests of `make demo-openresty` with the lock, compared with the
-- same requests without a lock, which sell more than there is.

local Nginx = require "spec.support.servers.nginx"
local proc = require "spec.support.programs.proc"

local Race = {}
Race.__index = Race

local IDS = { "etcdlock", "without" }
local LABELS = { etcdlock = "with the lock", without = "without any lock, oversold" }

local DEMO = { "luajit", "examples/openresty/demo.lua" }
local ENV = { LUA_CPATH = "build/jit/?.so;;" }

--- See locks.lua. If nginx has no Lua module, no entrant takes part.
function Race.start(_, _, excuse)
  local has_lua = Nginx.has_lua()
  if not has_lua then excuse("nginx", "it has no Lua") end
  return setmetatable({ ids = has_lua and IDS or {}, labels = LABELS }, Race)
end

--- Runs the demo once. Returns the samples of both entrants.
function Race.round()
  local out, code, err = proc.run(DEMO, { env = ENV, seconds = 120 })
  if code ~= 0 then error(out .. err, 0) end
  local without, with = out:match "requests/s +(%d+) +(%d+)"
  return {
    etcdlock = { rate = tonumber(with), broken = 0 },
    without = { rate = tonumber(without), broken = 0 },
  }
end

function Race.stop() end

return Race
