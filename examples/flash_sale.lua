-- The flash sale: two shops with ten worker processes each sell the same 300 items from one stock
-- file, and 500 customers come at the same time. There are three sales: without a lock; with a
-- lock in etcd; and with this lock, while its holder is killed (kill -9) in the middle of a sale.
--
--   make demo
--   lua examples/flash_sale.lua [CUSTOMERS [ITEMS [TTL]]]
--
-- flash_sale/shop.lua   a worker: the code that needs the lock
-- flash_sale/crowd.lua  the customers
-- flash_sale/stage.lua  starts etcd and all other processes, and ends all of them
-- flash_sale/show.lua   prints the progress bars and the table of results

local HERE = arg[0]:match "^(.*)/" or "."
package.path = HERE .. "/?.lua;" .. package.path

local stage = require "flash_sale.stage" -- before the others, because it handles Ctrl-C
local argument = require "flash_sale.argument"
local etcdlock = require "etcdlock"
local show = require "flash_sale.show"
local socket = require "socket"

local CUSTOMERS = argument("flash_sale", 1, "CUSTOMERS", 500, 1, 5000)
local ITEMS = argument("flash_sale", 2, "ITEMS", 300, 1, 99999)
local TTL = argument("flash_sale", 3, "TTL", 2, 2, 300) -- seconds
local SHOPS, WORKERS = 2, 10

-- Reserves a port on which all workers of one shop can listen. Returns the port, and the socket
-- that reserves it.
local function reserve_port()
  local place = assert(socket.tcp4())
  assert(place:setoption("reuseport", true))
  assert(place:bind("127.0.0.1", 0))
  local _, port = place:getsockname()
  return port, place
end

-- Starts the workers of all shops, and returns the workers and the ports of the shops when all
-- workers are ready. If `stuck_at` is given, the customer who comes when so many items are left
-- never pays. on_stuck() is called when the worker of this customer begins to wait.
local function open_shops(stock_file, endpoint, stuck_at, on_stuck)
  local workers, ports, places, ready = {}, {}, {}, 0
  local function hear(line)
    if line == "ready" then ready = ready + 1 else on_stuck() end
  end
  for shop = 1, SHOPS do
    ports[shop], places[shop] = reserve_port()
    for _ = 1, WORKERS do
      workers[#workers + 1] = stage.start(HERE .. "/flash_sale/shop.lua",
        { ports[shop], stock_file, endpoint, TTL, stuck_at }, hear)
    end
  end
  stage.wait(function() return ready == SHOPS * WORKERS end, 30, "the shops open")
  for _, place in ipairs(places) do place:close() end
  return workers, ports
end

local function write_number(file, items)
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

local function note_answer(result, answer, milliseconds)
  local number, pid = answer:match "^sold (%d+) by (%d+)"
  local kind = number and "sold" or answer == "sold out" and "sold_out" or "errors"
  result[kind] = result[kind] + 1
  result.first_error = result.first_error or kind == "errors" and answer
  result.answered = result.answered + 1
  result.latencies[result.answered] = tonumber(milliseconds)
  if number then
    local sellers = result.sellers[number] or {}
    result.sellers[number] = sellers
    sellers[#sellers + 1] = tonumber(pid)
    if #sellers == 2 then
      result.slip = result.slip or { number = tonumber(number), pids = sellers }
    end
  end
end

-- Kills the worker that holds the lock, in the middle of a sale. Stores in `result` the pid of this
-- worker, and the seconds until another worker holds the lock.
local function kill_holder(workers, client, result)
  local holder = assert(client:queue "stock/1001")[1]
  local from = socket.gettime()
  for _, worker in ipairs(workers) do
    if worker.handle:get_pid() == holder.pid then stage.stop { worker } end
  end
  stage.wait(function()
    local now = assert(client:queue "stock/1001")[1]
    return now and now.token ~= holder.token or result.answered == CUSTOMERS
  end, TTL + 30, "the next one has the lock")
  result.killed_pid, result.takeover = holder.pid, socket.gettime() - from
end

-- Runs one sale. Returns the answers to the customers and the times. If `stuck_at` is given, the
-- customer who comes when so many items are left does not pay, and the worker that waits for the
-- payment is killed.
local function sale(title, endpoint, stuck_at)
  local result = {
    title = title, answered = 0, sold = 0, sold_out = 0, errors = 0, latencies = {}, sellers = {},
  }
  show.progress(result, CUSTOMERS, ITEMS)

  local stock_file = stage.dir .. "/stock"
  write_number(stock_file, ITEMS)
  if stuck_at then write_number(stock_file .. ".stuck", stuck_at) end
  local is_stuck = false
  local workers, ports = open_shops(stock_file, endpoint, stuck_at, function()
    is_stuck = true
  end)

  local from = socket.gettime()
  stage.start(HERE .. "/flash_sale/crowd.lua", { CUSTOMERS, ports[1], ports[2] },
    function(line)
      local milliseconds, answer = line:match "^(%S+) (.*)"
      note_answer(result, answer, milliseconds)
      show.progress(result, CUSTOMERS, ITEMS)
    end)
  if stuck_at then
    local client = assert(etcdlock.connect { endpoints = endpoint, env = false })
    stage.wait(function() return is_stuck end, 60, "somebody doesn't pay")
    kill_holder(workers, client, result)
    client:close()
  end
  stage.wait(function() return result.answered == CUSTOMERS end, TTL + 60, "everybody is served")
  result.seconds = socket.gettime() - from

  stage.stop(workers)
  result.left = read_stock(stock_file)
  result.is_consistent = not result.slip
  return result
end

local function demo()
  print(("%d shops with %d workers each, %d items in stock, %d customers at once."):format(
    SHOPS, WORKERS, ITEMS, CUSTOMERS))
  local endpoint = stage.start_etcd()
  local unlocked = sale(show.WITHOUT)
  local slip = unlocked.slip
  if slip then
    show.note(('Workers %d and %d both read "%d left" and sold that item.'):format(
      slip.pids[1], slip.pids[2], slip.number))
  end
  local locked = sale(show.WITH, endpoint)
  local stuck_at = ITEMS - math.floor(math.min(ITEMS, CUSTOMERS) / 2)
  local killed = sale(show.KILLED, endpoint, stuck_at)
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
  show.difference(HERE, "flash_sale/shop.lua")
  return is_right
end

os.exit(stage.run(demo) and 0 or 1)
