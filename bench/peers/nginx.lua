-- The entrants of the row nginx: one nginx worker, in which all nginx requests take and release the
-- same lock. wrk sends them on 50 connections, as fast as they are answered. The field `lock` of
-- the job chooses the location.

local Nginx = require "spec.support.servers.nginx"
local json = require "dkjson"
local proc = require "spec.support.programs.proc"
local uv = require "luv"

local job = json.decode(arg[1])

local LOCATIONS = {
  etcdlock = [[
    local lock = assert(client:lock "hot")
    work()
    assert(lock:unlock())
  ]],
  -- The steps of lua-resty-lock, because Debian has no package of lua-resty-lock itself.
  shared_dict = [[
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
  redis = { conf = "lua_check_client_abort off;", content = [[
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
  redis = require "bench.peers.nginx_redis"
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

local CONNECT = [[ client = assert(etcdlock.connect { endpoints = "%s" }) ]]

local UNITS = { us = 1e-6, ms = 1e-3, s = 1 }

-- Returns the seconds within which |percent| percent of the nginx requests were answered. |out|:
-- the output of wrk.
local function quantile(out, percent)
  local number, unit = out:match("%f[%d]" .. percent .. "%% +([%d.]+)(%a+)")
  return number * UNITS[unit]
end

-- Runs wrk for one window. Returns the answer; `tail` is the 99th percentile of the times of the
-- nginx requests divided by their median. If two requests hold the lock at once, one of them fails,
-- and so does this program.
local function answer_of(nginx, seconds)
  local out, code, err = proc.run {
    -- No entrant is so unfair that a request waits for 30 s.
    "wrk", "-t", "1", "-c", "50", "-d", ("%ds"):format(math.ceil(seconds)), "--latency",
    "--timeout", "30s", ("http://127.0.0.1:%s/lock"):format(nginx.port),
  }
  local failed = nginx:errors()[1] or out:match "Non%-2xx or 3xx responses: (%d+)"
    or out:match "Socket errors: (.*)"
  if code ~= 0 or failed then error(("wrk: %s%s%s"):format(out, err, nginx:log():sub(-2000)), 0) end
  local count, took, unit = out:match "(%d+) requests in ([%d.]+)(%a+)"
  return {
    pairs = tonumber(count), seconds = took * UNITS[unit], broken = 0,
    tail = quantile(out, 99) / quantile(out, 50),
  }
end

if not Nginx.has_lua() then error("nginx has no Lua", 0) end
if not uv.fs_stat "/usr/bin/wrk" then error("there is no wrk", 0) end
local nginx = Nginx.start {
  build = "build/jit",
  main = ("env REDIS=%s;"):format(job.socket or ""),
  http = "keepalive_requests 1000000; lua_socket_pool_size 512;",
  init = INIT:format(uv.cwd()),
  init_worker = job.lock == "etcdlock" and CONNECT:format(job.endpoint) or "",
  locations = { ["/lock"] = LOCATIONS[job.lock] },
}
io.stdout:setvbuf "line"
print("ready nginx " .. proc.run({ "sh", "-c", "nginx -v 2>&1" }):match "nginx/(%S+)")
for line in io.lines() do print(json.encode(answer_of(nginx, json.decode(line).seconds))) end
Nginx.stop_all()
proc.shut_down()
