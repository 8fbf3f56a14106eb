--- Runs Lua's garbage collector in an nginx worker while clients exist that a request has made.
--
-- If a request ends without `close` of its client, only the garbage collector ends the client: its
-- threads, its descriptors and its lease. Lua collects garbage only while Lua code runs, so an idle
-- worker would keep such clients. Therefore timers run the collector in small steps: CYCLES
-- collections, first every second, later every minute. The interval grows because a client that is
-- not collected is probably in use, for example kept by a module of the program.
local M = {}

local ngx = rawget(_G, "ngx")

local STEP_KB = 64 -- size of one collector step: it takes a fraction of a millisecond
local STEP_PAUSE = 0.01 -- seconds between two steps
local PAUSE, PAUSE_MAX = 1, 60 -- seconds before the next collections; doubles up to PAUSE_MAX
-- Number of collections in a row: the first one finalizes a client, the second one frees it.
local CYCLES = 2

-- Number -> core client. Weak values, because Lua removes them before it calls the finalizer; with
-- the clients as weak keys, a finalized client would still be found.
local clients, last_number = setmetatable({}, { __mode = "v" }), 0
local pause -- seconds before the next collections
-- first.request: ngx.ctx of the request that made the first client; a weak reference, so that it
-- becomes nil when the request has ended. has_others: another request has made a client as well.
local first, has_others = setmetatable({}, { __mode = "v" }), false
-- The number of the newest timer, and the time at which it expires (as ngx.now; math.huge: there is
-- no timer). Older timers do nothing when they expire.
local newest, expires = 0, math.huge

local function has_clients()
  for _, client in pairs(clients) do
    if not client:has_stopped() then
      return true
    end
  end
  return false
end

local run

-- Starts a timer, which is then the newest one.
local function run_in(seconds, cycles)
  newest = newest + 1
  expires = ngx.timer.at(seconds, run, newest, cycles) and ngx.now() + seconds or math.huge
end

-- The timers' function: runs one step of the garbage collector, and starts the next timer if one is
-- needed. `cycles` is the number of collections to finish before the timers pause for `pause`.
function run(premature, number, cycles)
  if premature or number ~= newest then
    return
  end
  if collectgarbage("step", STEP_KB) then
    cycles = cycles - 1
  end
  if cycles > 0 then
    run_in(STEP_PAUSE, cycles)
  elseif has_clients() and (has_others or first.request) then
    run_in(pause, CYCLES)
    pause = math.min(pause * 2, PAUSE_MAX)
  else
    expires = math.huge
  end
end

--- Returns true if the newest timer expires within PAUSE. If the timer is late by more than PAUSE,
-- nginx has dropped it, because too many timers run, and the result is false.
local function is_running()
  local left = expires - ngx.now()
  return left <= PAUSE and left >= -PAUSE
end

--- Records a new core client, and starts a timer unless one expires soon. `request` is the ngx.ctx
-- of the request that has made the client; nil outside a request.
--
-- Clients that are made when a worker starts are not recorded, because a module keeps them, nor are
-- those that are made when it exits. If one request has made all recorded clients, the timers end
-- with this request, for two reasons. A client that still exists then is probably kept for later
-- requests. And with `lua_code_cache off` each request has a Lua state of its own, which a timer
-- would keep alive after the request.
function M.record(client, request)
  local phase = ngx.get_phase()
  if phase == "init_worker" or phase == "exit_worker" then
    return
  end
  last_number = last_number + 1
  clients[last_number], pause = client, PAUSE
  if last_number == 1 then
    first.request = request
  elseif request ~= first.request then
    has_others = true
  end
  if not is_running() then
    run_in(PAUSE, CYCLES)
  end
end

return M
