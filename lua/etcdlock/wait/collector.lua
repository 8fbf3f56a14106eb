--- Has Lua's collector find the clients that requests of nginx have dropped: those that
-- connect by themselves and don't close, or were aborted. A worker without work would never
-- collect them, and each has threads, descriptors and a lease.
--
-- While there are such clients, collections run in small steps, one after the other at first,
-- and later one a minute: a client may also be one that a module keeps.
local ties = require "etcdlock.wait.tie"

local M = {}

local ngx = rawget(_G, "ngx")

local STEP_KB = 64 -- a fraction of a millisecond
local STEP_PAUSE = 0.01 -- second
local REST, REST_MOST = 1, 60 -- seconds
-- What the first finds and finalizes, the second frees.
local CYCLES = 2

-- Weak values: a finalized key of a weak table would still be found.
local clients, last_number = setmetatable({}, { __mode = "v" }), 0
local rest -- after the next collection
-- `request`: the scope (tie.lua) of the request that made the first client; weak, because that
-- request may end. has_others: another request has made a client as well.
local first, has_others = setmetatable({}, { __mode = "v" }), false
-- The number of the newest timer, and the time at which it is due (math.huge: there is none).
-- Older timers return at once.
local turn, due = 0, math.huge

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
  turn = turn + 1
  due = ngx.timer.at(seconds, run, turn, cycles) and ngx.now() + seconds or math.huge
end

-- `cycles` of this collection are left.
function run(premature, its_turn, cycles)
  if premature or its_turn ~= turn then
    return
  end
  if collectgarbage("step", STEP_KB) then
    cycles = cycles - 1
  end
  if cycles > 0 then
    run_in(STEP_PAUSE, cycles)
  elseif has_clients() and (has_others or first.request) then
    run_in(rest, CYCLES)
    rest = math.min(rest * 2, REST_MOST)
  else
    due = math.huge
  end
end

--- Is the newest timer due within REST? If it is overdue by more than REST, nginx has dropped it,
-- as it does if too many timers run.
local function is_running()
  local ahead = due - ngx.now()
  return ahead <= REST and ahead >= -REST
end

--- Records a core client that was just made, and starts a timer if none is due soon. It starts no
-- timer for clients that are made when a worker starts: a module keeps them. If all others are of
-- one request, the timers end after that request: a client that is left then is kept for later
-- requests. And with `lua_code_cache off` each request has a Lua state of its own, which a timer
-- would keep alive after the request.
function M.notice(client)
  local phase = ngx.get_phase()
  if phase == "init_worker" or phase == "exit_worker" then
    return
  end
  local request = ties.scope()
  last_number = last_number + 1
  clients[last_number], rest = client, REST
  if last_number == 1 then
    first.request = request
  elseif request ~= first.request then
    has_others = true
  end
  if not is_running() then
    run_in(REST, CYCLES)
  end
end

return M
