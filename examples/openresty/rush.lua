-- The customers of the sale: ab (ApacheBench), once for each service and all at
-- the same time. And somebody who asks the same workers for /ping meanwhile.

local uv = require "luv"
local stage = require "flash_sale.stage"

local M = {}

local PING_EVERY_MS = 5

-- ---- ab -----------------------------------------------------------------------

local ANSWERS = { sold = "sold", ["sold out"] = "sold_out" } -- and the fields that count them

-- The milliseconds that each of its requests took: the fifth column, behind a
-- line of names.
local function read_latencies(file, latencies)
  for line in io.lines(file) do
    latencies[#latencies + 1] = tonumber((line:match "^[^\t]*\t%d+\t%d+\t%d+\t(%d+)"))
  end
end

-- Sends |requests| at once. Each answer is counted in |result|, and on_answer() called. Returns the
-- process, and a function that adds to |result| what is known at its end.
local function start_ab(number, requests, url, result, on_answer)
  local times_file = ("%s/times-%d"):format(stage.dir, number)
  local seconds
  local process = stage.spawn("ab", {
    "ab", "-q", "-r", "-l", "-s", "60", -- seconds of patience
    "-v", "4", -- show the answers
    "-n", requests, "-c", requests, "-g", times_file, url,
  }, function(line)
    seconds = seconds or line:match "^Time taken for tests: +(%S+)"
    local field = ANSWERS[line]
    if field then
      result[field] = result[field] + 1
      result.answered = result.answered + 1
      on_answer()
    end
  end)
  return process, function()
    result.seconds = math.max(result.seconds, tonumber(seconds))
    read_latencies(times_file, result.latencies)
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

--- Sends |requests| to |path| of the services at these ports. Counts what they answer in |result|
-- (sold, sold_out, answered), and calls on_answer() after each. At the end the other requests are
-- its `errors`; `seconds` are those of the slower ab, and `latencies` and `pings` milliseconds.
function M.run(requests, ports, path, result, on_answer)
  local end_pings = start_pings(ports)
  local processes, finish = {}, {}
  for i, port in ipairs(ports) do
    -- Half of them each, and an odd one for the first.
    local share = math.floor((requests + #ports - i) / #ports)
    processes[i], finish[i] = start_ab(i, share, ("http://127.0.0.1:%d%s"):format(port, path),
      result, on_answer)
  end
  stage.wait(function()
    for _, process in ipairs(processes) do
      if not stage.has_ended(process) then return false end
    end
    return true
  end, 90, "all requests are answered")

  result.pings, result.seconds, result.latencies = end_pings(), 0, {}
  for _, finish_one in ipairs(finish) do finish_one() end
  table.sort(result.pings)
  result.errors = requests - result.answered
  if result.errors > 0 then
    result.answered = requests
    on_answer()
  end
end

return M
