-- The flash sale in nginx: two services, each an nginx with two workers, sell the same 300 items
-- from Redis, and 500 requests come at the same time. There are two sales: without a lock, and with
-- a lock in etcd.
--
--   make demo-openresty
--   luajit examples/openresty/demo.lua [REQUESTS [ITEMS]]
--
-- sale.lua    the code of the services, which needs the lock
-- redis.lua   the Redis client of the services
-- nginx.conf  the configuration of the services
-- rush.lua    the customers
-- ../flash_sale/stage.lua  starts all processes, and ends all of them
-- ../flash_sale/show.lua   prints the progress bars and the table of results

local HERE = arg[0]:match "^(.*)/" or "."
package.path = HERE .. "/?.lua;" .. HERE .. "/../?.lua;" .. package.path

local stage = require "flash_sale.stage" -- before the others, because it handles Ctrl-C
local argument = require "flash_sale.argument"
local rush = require "rush"
local show = require "flash_sale.show"
local uv = require "luv"

local SERVICES, WORKERS = 2, 2
local REQUESTS = argument("demo", 1, "REQUESTS", 500, SERVICES, 2000)
local ITEMS = argument("demo", 2, "ITEMS", 300, 1, 99999)

-- ---- Redis --------------------------------------------------------------------

-- Runs `command` by redis-cli. Returns the first line of Redis's answer.
local function redis(command)
  local cli = assert(io.popen(("redis-cli -s '%s/redis.sock' %s 2>&1"):format(stage.dir, command)))
  local answer = cli:read "*l"
  cli:close()
  return answer
end

local function start_redis()
  stage.spawn("redis", {
    "redis-server", "--port", "0", "--unixsocket", stage.dir .. "/redis.sock",
    "--dir", stage.dir, "--save", "", "--appendonly", "no",
  })
  stage.wait(function() return redis "PING" == "PONG" end, 20, "Redis answers")
end

-- ---- the services -------------------------------------------------------------

local function read(file)
  local input = assert(io.open(file))
  local text = input:read "*a"
  input:close()
  return text
end

-- Writes the nginx.conf of a service into the directory `dir`: the file nginx.conf beside this one,
-- with values for its @NAMES@. The service searches Lua modules in the same paths as this program.
local function write_conf(dir, port, etcd)
  local values = {
    DIR = dir, HERE = HERE, PORT = port, WORKERS = WORKERS, ETCD = etcd,
    REDIS = stage.dir .. "/redis.sock", LUA_PATH = package.path, LUA_CPATH = package.cpath,
  }
  local text = read(HERE .. "/nginx.conf"):gsub("@([A-Z_]+)@", function(name)
    return values[name] and tostring(values[name])
  end)
  local out = assert(io.open(dir .. "/nginx.conf", "w"))
  out:write(text)
  out:close()
end

-- Starts the services. When all of them answer, returns a list of their ports.
local function open_services(etcd)
  local ports = {}
  for i = 1, SERVICES do
    local dir = stage.dir .. "/service-" .. i
    assert(uv.fs_mkdir(dir, tonumber("700", 8)))
    ports[i] = stage.free_port()
    write_conf(dir, ports[i], etcd)
    -- nginx is stopped by TERM and not by KILL, because its master must end its workers.
    stage.spawn("nginx", { "nginx", "-p", dir, "-c", dir .. "/nginx.conf", "-e", "stderr" }, nil,
      "TERM")
  end
  for _, port in ipairs(ports) do
    stage.wait(function() return stage.can_connect(port) end, 20, "nginx answers")
  end
  return ports
end

-- ---- the sale -----------------------------------------------------------------

local function sale(title, ports, path)
  redis("SET stock " .. ITEMS)
  redis "DEL orders"
  local result = { title = title, answered = 0, sold = 0, sold_out = 0 }
  local function show_progress() show.progress(result, REQUESTS, ITEMS) end
  show_progress()
  rush.run(REQUESTS, ports, path, result, show_progress)
  result.left = tonumber(redis "GET stock")
  result.orders = tonumber(redis "LLEN orders")
  result.is_consistent = result.orders == ITEMS - result.left
  return result
end

local ping_p50, ping_p99 = show.percentiles("pings", "%.1f")

-- Rows of the table that only this demo has. Each service stores an order in Redis for each item
-- that it sells. During the sale, rush.lua also sends requests for /ping.
local MORE_ROWS = {
  { "orders in Redis", function(result) return result.orders end },
  { "/ping requests", function(result) return result.pings.sent end },
  { "/ping errors", function(result) return result.pings.failed end },
  { "/ping p50", ping_p50 },
  { "/ping p99", ping_p99 },
}

local function demo()
  print(("%d nginx services with %d workers each, %d items in Redis, %d requests at once."):format(
    SERVICES, WORKERS, ITEMS, REQUESTS))
  local etcd = stage.start_etcd()
  start_redis()
  local ports = open_services(etcd)
  local unlocked = sale(show.WITHOUT, ports, "/without_lock")
  local locked = sale(show.WITH, ports, "/with_lock")
  show.table(ITEMS, { unlocked, locked }, MORE_ROWS)
  local is_right = show.verdict(REQUESTS, ITEMS, unlocked, { locked })
  if not is_right then io.write(stage.log "nginx") end
  show.difference(HERE .. "/..", "openresty/sale.lua")
  return is_right
end

os.exit(stage.run(demo) and 0 or 1)
