-- The flash sale: two shops, ten worker processes each, sell the same 300 items
-- from one stock file, and 500 customers come at once. First without a lock,
-- then with one that etcd keeps.
--
--   make demo
--   lua examples/flash_sale.lua [CUSTOMERS [ITEMS]]
--
-- flash_sale/shop.lua   a worker: the code that the lock is about
-- flash_sale/crowd.lua  the customers
-- flash_sale/stage.lua  starts etcd and all processes, and leaves none behind

local HERE = arg[0]:match "^(.*)/" or "."
package.path = HERE .. "/?.lua;" .. package.path

local socket = require "socket"
local stage = require "flash_sale.stage"
local show = require "flash_sale.show"

local CUSTOMERS = tonumber(arg[1]) or 500
local ITEMS = tonumber(arg[2]) or 300
local SHOPS, WORKERS = 2, 10

-- A port for the workers of one shop, which listen on it together.
local function reserve_port()
  local place = assert(socket.tcp4())
  assert(place:setoption("reuseport", true))
  assert(place:bind("127.0.0.1", 0))
  local _, port = place:getsockname()
  return port, place
end

-- Opens the shops; returns their workers and ports when all are ready.
local function open_shops(stock_file, endpoint)
  local workers, ports, places, ready = {}, {}, {}, 0
  for shop = 1, SHOPS do
    ports[shop], places[shop] = reserve_port()
    for _ = 1, WORKERS do
      workers[#workers + 1] = stage.start(HERE .. "/flash_sale/shop.lua",
        { ports[shop], stock_file, endpoint }, function() ready = ready + 1 end)
    end
  end
  stage.wait(function() return ready == SHOPS * WORKERS end, 30, "the shops open")
  for _, place in ipairs(places) do place:close() end
  return workers, ports
end

local function write_stock(file, items)
  local out = assert(io.open(file, "w"))
  out:write(("%5d\n"):format(items))
  out:close()
end

local function read_stock(file)
  local input = assert(io.open(file))
  local items = tonumber(input:read "*l")
  input:close()
  return items
end

-- One sale: what the customers were told, and how long it took.
local function sale(title, endpoint)
  local stock_file = stage.dir .. "/stock"
  write_stock(stock_file, ITEMS)
  local workers, ports = open_shops(stock_file, endpoint)

  local result = { answered = 0, sold = 0, sold_out = 0, errors = 0, latencies = {} }
  local from = socket.gettime()
  stage.start(HERE .. "/flash_sale/crowd.lua", { CUSTOMERS, ports[1], ports[2] },
    function(line)
      local milliseconds, answer = line:match "^(%S+) (.*)"
      local kind = answer == "sold" and "sold" or answer == "sold out" and "sold_out" or "errors"
      result[kind] = result[kind] + 1
      result.first_error = result.first_error or kind == "errors" and answer
      result.answered = result.answered + 1
      result.latencies[result.answered] = tonumber(milliseconds)
      show.progress(title, result, CUSTOMERS)
    end)
  stage.wait(function() return result.answered == CUSTOMERS end, 60, "everybody is served")
  result.seconds = socket.gettime() - from

  stage.stop(workers)
  result.left = read_stock(stock_file)
  return result
end

local function demo()
  print(("%d shops with %d workers each, %d items in stock, %d customers at once."):format(
    SHOPS, WORKERS, ITEMS, CUSTOMERS))
  local endpoint = stage.start_etcd()
  local unlocked = sale("without the lock", nil)
  local locked = sale("with the lock", endpoint)
  show.table(unlocked, locked, ITEMS)

  local sold = math.min(ITEMS, CUSTOMERS)
  local right = locked.sold == sold and locked.sold_out == CUSTOMERS - sold
    and locked.left == ITEMS - sold and locked.errors == 0
  if unlocked.sold > ITEMS then
    print(("Without the lock %d items were sold that nobody has."):format(unlocked.sold - ITEMS))
  end
  print(right and ("With the lock exactly %d of %d items were sold."):format(sold, ITEMS)
    or "THIS IS WRONG: the lock did not do what it is for.")
  return right
end

os.exit(stage.run(demo) and 0 or 1)
