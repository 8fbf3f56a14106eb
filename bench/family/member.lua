-- A process that contends with others for locks of one kind. It prints these lines, with times in
-- seconds on the monotonic clock that all processes share:
--   in FROM WAITED TOKEN NAMES   a hold began at the time FROM, after a wait of WAITED seconds
--   out TIME                     the hold ended
--   failed MESSAGE               a call failed, or the lock was lost
--
-- Arguments: endpoints; kind ("multi", "read", "write", "semaphore"); seconds of each hold; seed of
-- the random numbers.

local etcdlock = require "etcdlock"
local uv = require "luv"

local endpoints, kind, hold, seed = arg[1], arg[2], tonumber(arg[3]), tonumber(arg[4])
local NAMES, TTL, PATIENCE = 25, 2, 15

math.randomseed(seed)
io.stdout:setvbuf "line"

local function now()
  return uv.hrtime() / 1e9
end

-- Returns two to five of the names, in random order.
local function some_names()
  local all, names = {}, {}
  for i = 1, NAMES do all[i] = "name/" .. i end
  for i = 1, math.random(2, 5) do names[i] = table.remove(all, math.random(#all)) end
  return names
end

local client = assert(etcdlock.connect { endpoints = endpoints, ttl = TTL })
local semaphore = assert(client:semaphore("pool", 3))

-- For each kind, a function that takes the lock. It returns the lock and its name or names; if it
-- fails, nil and the message.
local TAKE = {
  multi = function()
    local names = some_names()
    return client:multi_lock(names, { timeout = PATIENCE }), table.concat(names, " ")
  end,
  read = function()
    return client:read_lock("page", { timeout = PATIENCE }), "page"
  end,
  write = function()
    return client:write_lock("page", { timeout = PATIENCE }), "page"
  end,
  semaphore = function()
    return semaphore:lock { timeout = PATIENCE }, "pool"
  end,
}

-- Takes the lock, holds it for |hold| seconds, releases it, and prints what happened.
local function cycle()
  local asked = now()
  local lock, what = TAKE[kind]()
  if not lock then
    print("failed " .. what)
    return
  end
  local from = now()
  print(("in %.6f %.6f %.0f %s"):format(from, from - asked, lock:token(), what))
  if hold > 0 then uv.sleep(math.ceil(hold * 1000)) end
  local held, ends = lock:held(), now()
  local unlocked, message = lock:unlock()
  print(("out %.6f"):format(ends))
  if not (held and unlocked) then print("failed " .. (message or "lost")) end
end

assert(client:ping())
print "ready"
io.read()
local has_ended = require "bench.input_end"
while not has_ended() do cycle() end
print "end"
client:close()
