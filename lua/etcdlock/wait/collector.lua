--- Collects the clients that nginx requests have dropped without `close`. A worker without work
-- would never collect them, and each client has threads, descriptors and a lease.
--
-- While there are such clients, timers run collections in small steps: one collection a second at
-- first, later one a minute, because a module of the program may keep a client.
local M = {}

local ngx = rawget(_G, "ngx")

local STEP_KB = 64 -- of one collector step, which takes a fraction of a millisecond
local STEP_PAUSE = 0.01 -- seconds between two steps
local PAUSE, PAUSE_MAX = 1, 60 -- seconds between two collections; doubles up to PAUSE_MAX
-- The first collection finalizes a client, the second one frees it.
local CYCLES = 2

-- Weak values: with weak keys a finalized client would still be found.
local clients, last_number = setmetatable({}, { __mode = "v" }), 0
local pause -- seconds before the next collection
-- first.request: ngx.ctx of the request that made the first client. Weak, because the request may
-- end. has_others: another request has made a client as well.
local first, has_others = setmetatable({}, { __mode = "v" }), false
-- The number of the newest timer, and when it expires (ngx.now; math.huge: there is none). Older
-- timers do nothing.
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

local function run_in(seconds, cycles)
  newest = newest + 1
  expires = ngx.timer.at(seconds, run, newest, cycles) and ngx.now() + seconds or math.huge
end

-- `cycles`: collections that are left.
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

--- Returns whether the newest timer expires within PAUSE. A timer that is late by more than PAUSE
-- was dropped by nginx, which does that if too many timers run.
local function is_running()
  local left = expires - ngx.now()
  return left <= PAUSE and left >= -PAUSE
end

--- Records a core client that was just made by the request with this ngx.ctx (nil: none), and
-- starts a timer unless one expires soon. It starts no timer for the clients that are made when a
-- worker starts: a module keeps them. If one request has made all others, the timers end after
-- that request: a client that is left then is kept for later requests. Also, with
-- `lua_code_cache off` each request has its own Lua state, which a timer would keep alive after the
-- request.
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
