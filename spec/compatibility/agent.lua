-- A client of any version that takes locks in all modes for some time, with several owners. Run by
-- versions_spec.lua. Its argument is JSON: endpoints, prefix, ttl, seconds, owners, seed.
--
-- Prints these lines:
--   ready                           all owners have begun
--   hold MODE NAMES TOKEN FROM TO   a hold that was held from FROM to TO, in seconds of a clock
--                                   that all processes share. NAMES have commas between them
--   wrote NAME VALUE                the counter of the name was set to the value
--   unknown NAME                    it is unknown whether the counter was incremented
--   failed CALL CODE MESSAGE        a call has failed
--   closed                          the last line

local Random = require "spec.stress.random"
local etcdlock = require "etcdlock"
local json = require "dkjson"
local loop = require "spec.stress.loop"

io.stdout:setvbuf "line"
local config = json.decode(arg[1])
local random = Random.new(config.seed)
local client = assert(etcdlock.connect {
  endpoints = config.endpoints, prefix = config.prefix, ttl = config.ttl, loop = "luv", env = false,
  log = function() end,
})
local permits = assert(client:semaphore("permits", 2))
local election = assert(client:election "election")
local ends = loop.now() + config.seconds
local WAIT = 120 -- seconds

-- The ways to take a lock: the mode, the names, and the function that takes it with these options.
local WAYS = {
  { "lock", { "a" }, function(opts) return client:lock("a", opts) end },
  { "lock", { "a" }, function(opts) return client:lock("a", opts) end },
  { "lock", { "b" }, function(opts) return client:lock("b", opts) end },
  { "multi", { "a", "b" }, function(opts) return client:multi_lock({ "a", "b" }, opts) end },
  { "read", { "data" }, function(opts) return client:read_lock("data", opts) end },
  { "write", { "data" }, function(opts) return client:write_lock("data", opts) end },
  { "permit", { "permits" }, function(opts) return permits:lock(opts) end },
  { "leader", { "election" }, function(opts) return election:campaign("x", opts) end },
}
local COUNTED = { lock = true, multi = true, write = true, leader = true }

local function say(text, ...)
  print(text:format(...))
end

local function failed(call, message, code)
  say("failed %s %s %s", call, tostring(code), tostring(message))
end

-- Increments the counter of |name| by a guarded write.
local function increment(lock, name)
  local key = config.prefix .. "counter/" .. name
  local value, message, code = lock:get(key)
  if value == nil and code then return failed("get", message, code) end
  value = (tonumber(value or 0) or 0) + 1
  local ok
  ok, message, code = lock:put(key, ("%d"):format(value))
  if ok then return say("wrote %s %d", name, value) end
  failed("put", message, code)
  if code == "unavailable" then say("unknown %s", name) end
end

local function work(owner)
  local way = random:pick(WAYS)
  local mode, names = way[1], way[2]
  local linger = mode == "lock" and random:chance(0.1) and 0.2 or nil
  local lock, message, code = way[3] { timeout = WAIT, owner = owner, linger = linger }
  if not lock then
    failed(mode, message, code)
    return loop.sleep(0.05)
  end
  -- If held() is true after the time |to| was read, the lock was held at that time.
  local from, to = loop.now(), nil
  if lock:held() then to = from end
  if COUNTED[mode] and random:chance(0.5) then increment(lock, names[1]) end
  local over = loop.now() + (random:chance(0.95) and 0 or random:real(0.01, 0.1))
  repeat
    loop.sleep(0)
    local now = loop.now()
    local held = lock:held()
    if held then to = now end
  until not held or now >= over
  if to then
    say("hold %s %s %.0f %.6f %.6f", mode, table.concat(names, ","), lock:token(), from, to)
  end
  local ok
  ok, message, code = lock:unlock()
  if not ok then failed("unlock", message, code) end
end

local running = config.owners
for i = 1, config.owners do
  loop.spawn(function()
    while loop.now() < ends do work("owner" .. i) end
    running = running - 1
  end)
end
print "ready"
if not loop.run(function() return running == 0 end, config.seconds + 2 * WAIT) then
  failed("run", running .. " owners have not ended", "late")
end
client:close()
print "closed"
