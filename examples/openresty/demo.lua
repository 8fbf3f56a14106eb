-- The flash sale for real: two services, each an nginx with two workers, sell
-- the same 300 items from Redis, and 500 requests come at once. First without a
-- lock, then with one that etcd keeps.
--
--   make demo-openresty
--   luajit examples/openresty/demo.lua [REQUESTS [ITEMS]]
--
-- sale.lua    what the services do: the code that the lock is about
-- redis.lua   how they talk to Redis
-- nginx.conf  their nginx
-- rush.lua    the customers
-- ../flash_sale/stage.lua  starts all processes, and leaves none behind

local HERE = arg[0]:match "^(.*)/" or "."
package.path = HERE .. "/?.lua;" .. HERE .. "/../?.lua;" .. package.path

local uv = require "luv"
local rush = require "rush"
local stage = require "flash_sale.stage"

local REQUESTS = tonumber(arg[1]) or 500
local ITEMS = tonumber(arg[2]) or 300
local SERVICES, WORKERS = 2, 2

-- ---- Redis --------------------------------------------------------------------

-- Redis's answer to a command of redis-cli.
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

-- Its nginx.conf with our values; it loads Lua modules from where we do.
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

-- Starts the services and returns their ports when all answer.
local function open_services(etcd)
  local ports = {}
  for i = 1, SERVICES do
    local dir = stage.dir .. "/service-" .. i
    assert(uv.fs_mkdir(dir, tonumber("700", 8)))
    ports[i] = stage.free_port()
    write_conf(dir, ports[i], etcd)
    -- Its master must end its workers; so it is told to, and not killed.
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
  redis "DEL lucky"
  io.write(title, " … ")
  io.stdout:flush()
  local result = rush.run(REQUESTS, ports, path)
  result.left = tonumber(redis "GET stock")
  result.lucky = tonumber(redis "LLEN lucky")
  print(("%d requests answered in %.2f s"):format(result.sold + result.sold_out, result.seconds))
  return result
end

local function percentiles(times, form, ...)
  local list = {}
  for i, percent in ipairs { ... } do
    list[i] = form:format(times[math.max(1, math.ceil(#times * percent / 100))] or 0 / 0)
  end
  return table.concat(list, " / ")
end

local ROWS = {
  { 'told "sold"', function(result) return result.sold end },
  { 'told "sold out"', function(result) return result.sold_out end },
  { "oversold", function(result) return math.max(0, result.sold - ITEMS) end },
  { "errors", function(result) return result.errors end },
  { "left in stock", function(result) return result.left end },
  { "lucky ones in Redis", function(result) return result.lucky end },
  { "time", function(result) return ("%.2f s"):format(result.seconds) end },
  { "requests per second", function(result)
    return ("%.0f"):format(result.requests / result.seconds)
  end },
  { "latency p50 / p90 (ms)", function(result)
    return percentiles(result.times, "%.0f", 50, 90)
  end },
  { "latency p99 / max (ms)", function(result)
    return percentiles(result.times, "%.0f", 99, 100)
  end },
  { "/ping meanwhile", function(result)
    return ("%d, %d failed"):format(result.pings.sent, result.pings.failed)
  end },
  { "its p50 / p99 / max (ms)", function(result)
    return percentiles(result.pings, "%.1f", 50, 99, 100)
  end },
}

local function print_table(unlocked, locked)
  local form = "  %-26s%20s%20s"
  print("\n" .. form:format("", "without the lock", "with the lock"))
  for _, row in ipairs(ROWS) do
    print(form:format(row[1], row[2](unlocked), row[2](locked)))
  end
  print()
end

local function demo()
  print(("%d nginx services with %d workers each, %d items in Redis, %d requests at once."):format(
    SERVICES, WORKERS, ITEMS, REQUESTS))
  local etcd = stage.start_etcd()
  start_redis()
  local ports = open_services(etcd)
  local unlocked = sale("without the lock", ports, "/without_lock")
  local locked = sale("with the lock", ports, "/with_lock")
  print_table(unlocked, locked)

  local sold = math.min(ITEMS, REQUESTS)
  local right = locked.sold == sold and locked.sold_out == REQUESTS - sold
    and locked.left == ITEMS - sold and locked.lucky == sold and locked.errors == 0
  if unlocked.sold > ITEMS then
    print(("Without the lock %d items were sold that nobody has."):format(unlocked.sold - ITEMS))
  end
  print(right and ("With the lock exactly %d of %d items were sold."):format(sold, ITEMS)
    or "THIS IS WRONG: the lock did not do what it is for.\n" .. stage.log "nginx")
  return right
end

os.exit(stage.run(demo) and 0 or 1)
