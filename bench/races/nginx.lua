-- The row `nginx`: one nginx worker, in which all nginx requests take and release the same lock.
-- wrk sends them on 50 connections, as fast as they are answered.

local Nginx = require "spec.support.servers.nginx"
local proc = require "spec.support.programs.proc"
local servers = require "bench.servers"
local turns = require "bench.turns"
local uv = require "luv"

local Race = {}
Race.__index = Race

local CONNECTIONS = "50"
local WARM_UP = { seconds = 1 }
-- The timeout of wrk for one nginx request. No entrant is so unfair that a request waits longer.
local PATIENCE = "30s"

local LABELS = {
  etcdlock = "etcdlock",
  shared_dict = "shared dict, as lua-resty-lock does",
  redis = "Redis SET NX, nothing on disk",
}

local LOCATIONS = {
  ["/etcdlock"] = [[
    local lock = assert(client:lock "hot")
    work()
    assert(lock:unlock())
  ]],
  -- The steps of lua-resty-lock, because Debian has no package of lua-resty-lock itself.
  ["/shared_dict"] = [[
    local pause = 0.001
    while not shared:add("hot", true, 30) do
      ngx.sleep(pause)
      pause = math.min(2 * pause, 0.5)
    end
    work()
    shared:delete "hot"
  ]],
  -- lua_check_client_abort off: at the end of a round wrk closes its connections, and nginx must
  -- let the last requests finish. Otherwise a request that is aborted while it holds the lock
  -- leaves its key behind, and no other request gets the lock for the rest of the TTL.
  ["/redis"] = { conf = "lua_check_client_abort off;", content = [[
    local token = ngx.var.request_id
    while redis("SET", "hot", token, "NX", "PX", redis_lock.ttl_ms) ~= "OK" do
      ngx.sleep(redis_lock.retry)
    end
    work()
    assert(redis("EVAL", redis_lock.release, 1, "hot", token) == "1")
  ]] },
}

local INIT = [[
  package.path = "%s/?.lua;" .. package.path
  redis = require "examples.openresty.redis"
  redis_lock = require "bench.peers.redis_lock"
  local inside = false
  -- Fails the request if another one is inside, too.
  function work()
    assert(not inside, "two at once")
    inside = true
    ngx.say "held"
    inside = false
  end
]]

local INIT_WORKER = [[
  client = assert(etcdlock.connect { endpoints = "%s" })
]]

--- Starts the servers; see locks.lua. If wrk or the Lua module of nginx is missing, no entrant
-- takes part.
function Race.start(_, ids, excuse)
  local self = setmetatable({ ids = {}, labels = LABELS }, Race)
  if not uv.fs_stat "/usr/bin/wrk" then
    excuse("nginx", "there is no wrk")
    return self
  elseif not Nginx.has_lua() then
    excuse("nginx", "it has no Lua")
    return self
  end
  self.ids, self.etcd, self.redis = ids, servers.etcd(), servers.redis()
  self.nginx = Nginx.start {
    build = "build/jit",
    main = ("env REDIS=unix:%s;"):format(self.redis.socket),
    http = "keepalive_requests 1000000; lua_socket_pool_size 512;",
    init = INIT:format(uv.cwd()),
    init_worker = INIT_WORKER:format(self.etcd:endpoint()),
    locations = LOCATIONS,
  }
  self:round(0, WARM_UP)
  return self
end

local UNITS = { us = 1e-6, ms = 1e-3, s = 1 }

-- Returns the seconds within which |percent| percent of the nginx requests were answered. |out|:
-- the output of wrk.
local function quantile(out, percent)
  local number, unit = out:match("%f[%d]" .. percent .. "%% +([%d.]+)(%a+)")
  return number * UNITS[unit]
end

-- Runs wrk. Returns the sample: `rate`, nginx requests per second; `tail`, the 99th percentile of
-- their times divided by the median; `broken`, always 0, because a violation fails the row.
local function sample(nginx, id, seconds)
  local out, code, err = proc.run {
    "wrk", "-t", "1", "-c", CONNECTIONS, "-d", ("%ds"):format(math.ceil(seconds)), "--latency",
    "--timeout", PATIENCE, ("http://127.0.0.1:%s/%s"):format(nginx.port, id),
  }
  local failed = nginx:errors()[1] or out:match "Non%-2xx or 3xx responses: (%d+)"
    or out:match "Socket errors: (.*)"
  if code ~= 0 or failed then error(("wrk: %s%s%s"):format(out, err, nginx:log():sub(-2000)), 0) end
  return {
    rate = tonumber(out:match "Requests/sec: +(%S+)"),
    tail = quantile(out, 99) / quantile(out, 50),
    broken = 0,
  }
end

function Race:round(number, command)
  return turns(self.ids, number, function(id) return sample(self.nginx, id, command.seconds) end)
end

function Race:stop()
  Nginx.stop_all()
  if self.etcd then self.etcd:stop() end
  if self.redis then self.redis:stop() end
end

return Race
