-- The customers of the sale: one process of ab (ApacheBench) for each service, all at the same
-- time. Meanwhile this program sends requests for /ping to the same workers.

local uv = require "luv"
local stage = require "flash_sale.stage"

local M = {}

local PING_EVERY_MS = 5

-- ---- ab -----------------------------------------------------------------------

-- Text of an answer -> the field of the result that counts such answers.
local ANSWERS = { sold = "sold", ["sold out"] = "sold_out" }

-- Adds to `latencies` the milliseconds of each request of ab. They are the fifth column of `file`,
-- below a line with the names of the columns.
local function read_latencies(file, latencies)
  for line in io.lines(file) do
    latencies[#latencies + 1] = tonumber((line:match "^[^\t]*\t%d+\t%d+\t%d+\t(%d+)"))
  end
end

-- Starts an ab that sends so many `requests` to `url` at the same time. For each answer, counts the
-- answer in `result` and calls on_answer(). Returns the process of ab, and a function that the
-- caller calls when ab has ended: it adds `seconds` and `latencies` to `result`.
local function start_ab(number, requests, url, result, on_answer)
  local times_file = ("%s/times-%d"):format(stage.dir, number)
  local seconds
  local process = stage.spawn("ab", {
    "ab", "-q", "-r", "-l", "-s", "60", -- seconds to wait for an answer
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

-- From now on sends a request for /ping every PING_EVERY_MS, to each of the ports in turn, also if
-- earlier requests have no answer yet. So a worker that is blocked delays all requests that it gets
-- meanwhile, and the percentiles show it. Returns a function that stops the requests, waits for the
-- answers, and returns a list of their milliseconds with the fields `sent` and `failed`.
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

--- Sends so many `requests` for `path` to the services at `ports`, and waits for the answers. After
-- each answer calls on_answer(). Fields of `result`:
--   sold, sold_out, answered   numbers of answers, counted during the sale
--   errors                     number of requests that had neither answer
--   seconds                    time of the slowest ab
--   latencies                  list: milliseconds of each request
--   pings                      sorted list: milliseconds of each request for /ping; fields: `sent`,
--                              `failed`
function M.run(requests, ports, path, result, on_answer)
  local end_pings = start_pings(ports)
  local processes, finish = {}, {}
  for i, port in ipairs(ports) do
    -- Each service gets an equal share of the requests; the first services also get the remainder.
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
