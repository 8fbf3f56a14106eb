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
-- `request` is the one that made the first client; weak, because it may end.
local first = setmetatable({}, { __mode = "v" })
-- Of the timer that is to go on, and when it is due; earlier ones have no more to do.
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
  elseif has_clients() then
    run_in(rest, CYCLES)
    rest = math.min(rest * 2, REST_MOST)
  else
    due = math.huge
  end
end

--- Is a timer about to go on? nginx drops timers if too many run already.
local function is_running()
  local ahead = due - ngx.now()
  return ahead <= REST and ahead >= -REST
end

--- Notices a core client that was just made. Clients that are made when a worker starts are kept,
-- and so is the client that one request makes for all. Besides, without lua_code_cache each
-- request has a Lua state of its own, which ends with the request and its last timer.
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
  elseif request ~= first.request and not is_running() then
    run_in(REST, CYCLES)
  end
end

return M
