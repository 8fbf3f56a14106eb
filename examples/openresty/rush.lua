-- The customers of the sale: ab (ApacheBench), once for each service and all at
-- the same time. And somebody who asks the same workers for /ping meanwhile.

local uv = require "luv"
local stage = require "flash_sale.stage"

local M = {}

local PING_EVERY_MS = 5

-- ---- ab -----------------------------------------------------------------------

-- The milliseconds that each of its requests took: the fifth column, behind a
-- line of names.
local function read_times(file, times)
  for line in io.lines(file) do
    times[#times + 1] = tonumber((line:match "^[^\t]*\t%d+\t%d+\t%d+\t(%d+)"))
  end
end

-- Lets `customers` come at once; result() tells what was said to them.
local function start_ab(number, customers, url)
  local times_file = ("%s/times-%d"):format(stage.dir, number)
  local said = { sold = 0, ["sold out"] = 0 }
  local seconds
  local process = stage.spawn("ab", {
    "ab", "-q", "-r", "-l", "-s", "60", -- seconds of patience
    "-v", "4", -- show the answers
    "-n", customers, "-c", customers, "-g", times_file, url,
  }, function(line)
    seconds = seconds or line:match "^Time taken for tests: +(%S+)"
    if said[line] then
      said[line] = said[line] + 1
    end
  end)
  return process, function(result)
    result.sold = result.sold + said.sold
    result.sold_out = result.sold_out + said["sold out"]
    result.seconds = math.max(result.seconds, tonumber(seconds))
    read_times(times_file, result.times)
  end
end

-- ---- /ping --------------------------------------------------------------------

local function ping(port, times)
  local connection, from, heard = uv.new_tcp(), uv.hrtime(), ""
  connection:connect("127.0.0.1", port, function(failure)
    if failure then
      times.failed = times.failed + 1
      return connection:close()
    end
    connection:write "GET /ping HTTP/1.0\r\n\r\n"
    connection:read_start(function(_, data)
      if data then
        heard = heard .. data
      else
        connection:close()
        if heard:find("pong", 1, true) then
          times[#times + 1] = (uv.hrtime() - from) / 1e6
        else
          times.failed = times.failed + 1
        end
      end
    end)
  end)
  times.sent = times.sent + 1
end

-- Asks all ports in turn and does not wait for an answer before the next: a worker
-- that stands still is found slow by all that come meanwhile.
local function start_pings(ports)
  local times, timer = { sent = 0, failed = 0 }, uv.new_timer()
  timer:start(0, PING_EVERY_MS, function()
    ping(ports[times.sent % #ports + 1], times)
  end)
  return function()
    timer:close()
    stage.wait(function() return #times + times.failed == times.sent end, 30, "all pings return")
    return times
  end
end

-- ---- both ---------------------------------------------------------------------

--- Sends `customers` to `path` of the services at these ports. Returns how many
-- were sold something, how many found it sold out, errors, the seconds of the
-- slower ab, and sorted lists of milliseconds: times (of ab) and pings.
function M.run(customers, ports, path)
  local end_pings = start_pings(ports)
  local processes, collect = {}, {}
  for i, port in ipairs(ports) do
    -- Half of them each, and an odd one for the first.
    local share = math.floor((customers + #ports - i) / #ports)
    processes[i], collect[i] = start_ab(i, share, ("http://127.0.0.1:%d%s"):format(port, path))
  end
  stage.wait(function()
    for _, process in ipairs(processes) do
      if not stage.has_ended(process) then return false end
    end
    return true
  end, 90, "everybody is served")

  local result = { sold = 0, sold_out = 0, seconds = 0, times = {}, pings = end_pings() }
  for _, add_to in ipairs(collect) do
    add_to(result)
  end
  result.errors = customers - result.sold - result.sold_out
  result.requests = customers
  table.sort(result.times)
  table.sort(result.pings)
  return result
end

return M
