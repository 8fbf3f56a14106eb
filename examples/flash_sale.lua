-- The flash sale: two shops with several worker processes each sell the same 300 items from one
-- stock file, and 500 customers come at the same time. There are three sales: without a lock; with
-- a lock in etcd; and with this lock, while its holder is killed (kill -9) in the middle of a sale.
-- The same sales run on two stages: with workers in plain blocking Lua, and in nginx.
--
--   make demo              lua examples/flash_sale.lua [CUSTOMERS [ITEMS [TTL]]]
--   make demo-openresty    luajit examples/flash_sale.lua nginx [CUSTOMERS [ITEMS [TTL]]]
--
-- flash_sale/shop.lua     the code that needs the lock
-- flash_sale/worker.lua   a worker that calls it in plain Lua
-- flash_sale/nginx.conf   the nginx whose workers call it
-- flash_sale/shops.lua    starts the workers of a stage
-- flash_sale/crowd.lua    the customers
-- flash_sale/stage.lua    starts etcd and all other processes, and ends all of them
-- flash_sale/show.lua     prints the progress bars and the table of results

local HERE = arg[0]:match "^(.*)/" or "."
package.path = HERE .. "/?.lua;" .. package.path
HERE = HERE .. "/flash_sale"

local stage = require "flash_sale.stage" -- before the others, because it handles Ctrl-C
local etcdlock = require "etcdlock"
local show = require "flash_sale.show"
local shops = require "flash_sale.shops"
local socket = require "socket"
local uv = require "luv"

local SHOPS = 2
-- A customer blocks a worker in plain Lua, but not a worker of nginx: the pings show that.
local STAGES = {
  lua = { open = shops.lua, workers = 10, ping_every_ms = 0, what = "shops" },
  nginx = { open = shops.nginx, workers = 2, ping_every_ms = 5, what = "shops in nginx" },
}
local PLACE = STAGES[arg[1] == "nginx" and table.remove(arg, 1) or "lua"]

-- Returns argument number `place`; `default` if it is missing. If the argument is not a whole
-- number from `least` to `most`, prints a message and ends the program.
local function argument(place, name, default, least, most)
  local number = tonumber(arg[place] or default)
  if not number or number % 1 ~= 0 or number < least or number > most then
    io.stderr:write(("flash_sale: %s is %q, wanted a whole number from %d to %d\n"):format(
      name, arg[place], least, most))
    os.exit(2)
  end
  return number
end

local CUSTOMERS = argument(1, "CUSTOMERS", 500, 1, 5000)
local ITEMS = argument(2, "ITEMS", 300, 1, 99999)
local TTL = argument(3, "TTL", 2, 2, 300) -- seconds

local function write_number(file, items)
  local out = assert(io.open(file, "w"))
  out:write(("%5d\n"):format(items))
  out:close()
end

local function read_number(file)
  local input = assert(io.open(file))
  local items = tonumber(input:read "*l")
  input:close()
  return items
end

-- Adds the answer to a customer, and the milliseconds until it came, to `result`. result.slip are
-- the number of an item that was sold twice, and the pids of the workers that sold it.
local function note_answer(result, milliseconds, answer)
  local number, pid = answer:match "^sold (%d+) by (%d+)"
  local kind = number and "sold" or answer == "sold out" and "sold_out" or "errors"
  result[kind] = result[kind] + 1
  result.first_error = result.first_error or kind == "errors" and answer
  result.answered = result.answered + 1
  result.latencies[result.answered] = tonumber(milliseconds)
  local seller = number and result.sellers[number]
  if seller then
    result.slip = result.slip or { number, seller, pid }
  elseif number then
    result.sellers[number] = pid
  end
end

local function note_ping(result, milliseconds, answer)
  table.insert(result.pings, tonumber(milliseconds))
  if answer ~= "pong" then
    result.errors, result.first_error = result.errors + 1, result.first_error or answer
  end
end

-- Kills the worker that holds the lock, in the middle of a sale. Stores in `result` the pid of this
-- worker, and the seconds until another worker holds the lock.
local function kill_holder(client, result)
  local holder = assert(client:queue "stock/1001")[1]
  local from = socket.gettime()
  stage.kill(holder.pid)
  stage.wait(function()
    local now = assert(client:queue "stock/1001")[1]
    return now and now.token ~= holder.token or result.answered == CUSTOMERS
  end, TTL + 30, "the next one has the lock")
  result.killed_pid, result.takeover = holder.pid, socket.gettime() - from
end

-- Runs one sale: the customers ask for `path`. Returns the answers to the customers and the times.
-- If `stuck_at` is given, the customer who comes when so many items are left does not pay, and the
-- worker that waits for the payment is killed.
local function sale(title, ports, path, client, stuck_at)
  local result = {
    title = title, answered = 0, sold = 0, sold_out = 0, errors = 0, latencies = {}, sellers = {},
    pings = {},
  }
  show.progress(result, CUSTOMERS, ITEMS)

  local stock = os.getenv "STOCK"
  write_number(stock, ITEMS)
  if stuck_at then write_number(stock .. ".stuck", stuck_at) end

  local from = socket.gettime()
  local crowd = stage.start(HERE .. "/crowd.lua",
    { CUSTOMERS, path, PLACE.ping_every_ms, ports[1], ports[2] },
    function(line)
      local what, milliseconds, answer = line:match "^(%S+) (%S+) (.*)"
      if what == "ping" then
        note_ping(result, milliseconds, answer)
      else
        note_answer(result, milliseconds, answer)
        result.seconds = socket.gettime() - from
        show.progress(result, CUSTOMERS, ITEMS)
      end
    end)
  if stuck_at then
    stage.wait(function() return not uv.fs_stat(stock .. ".stuck") end, 60, "somebody doesn't pay")
    kill_holder(client, result)
  end
  stage.wait(function() return stage.has_ended(crowd) end, TTL + 60, "everybody is served")
  result.left = read_number(stock)
  return result
end

local function demo()
  print(("%d %s with %d workers each, %d items in stock, %d customers at once."):format(
    SHOPS, PLACE.what, PLACE.workers, ITEMS, CUSTOMERS))
  local endpoint = stage.start_etcd()
  uv.os_setenv("STOCK", stage.dir .. "/stock")
  uv.os_setenv("SHOP_ETCD", endpoint)
  uv.os_setenv("SHOP_TTL", TTL)
  local ports = PLACE.open(HERE, SHOPS, PLACE.workers)

  local unlocked = sale(show.WITHOUT, ports, "without_lock")
  local slip = unlocked.slip
  if slip then
    show.note(("Two customers bought item %s, one from worker %s, one from worker %s."):format(
      slip[1], slip[2], slip[3]))
  end
  local locked = sale(show.WITH, ports, "with_lock")
  local client = assert(etcdlock.connect { endpoints = endpoint, env = false })
  local killed = sale(show.KILLED, ports, "with_lock", client,
    ITEMS - math.floor(math.min(ITEMS, CUSTOMERS) / 2))
  client:close()
  show.note(("Worker %d, which held the lock, was killed (kill -9)."):format(killed.killed_pid))
  show.note(("The next worker got the lock %.1f s later (TTL %g s)."):format(killed.takeover, TTL))

  local results = { unlocked, locked, killed }
  show.table(ITEMS, results)
  for _, result in ipairs(results) do
    if result.first_error then
      print(("The first error %s: %s"):format(result.title, result.first_error))
    end
  end
  local is_right = show.verdict(CUSTOMERS, ITEMS, unlocked, { locked, killed })
  if not is_right then io.write(stage.log "nginx") end
  show.difference(HERE .. "/shop.lua", "examples/flash_sale/shop.lua")
  return is_right
end

os.exit(stage.run(demo) and 0 or 1)
