-- The flash sale in nginx, `make demo-openresty`: its 500 requests with the lock, beside
-- the same without it, which oversell.

local proc = require "spec.support.programs.proc"

local Race = {}
Race.__index = Race

local IDS = { "etcdlock", "without" }
local LABELS = { etcdlock = "with the lock", without = "without any lock, oversold" }

local DEMO = { "luajit", "examples/openresty/demo.lua" }
local ENV = { LUA_CPATH = "build/jit/?.so;;" }

--- As that of locks.lua.
function Race.start()
  return setmetatable({ ids = IDS, labels = LABELS }, Race)
end

function Race.round()
  local out, code, err = proc.run(DEMO, { env = ENV, seconds = 120 })
  if code ~= 0 then error(out .. err, 0) end
  local without, with = out:match "requests per second +(%d+) +(%d+)"
  return {
    etcdlock = { rate = tonumber(with), broken = 0 },
    without = { rate = tonumber(without), broken = 0 },
  }
end

function Race.stop() end

return Race
