-- The program of the row `held`: one client holds 10,000 locks. The program measures the CPU time
-- and the requests of the client while no call is made. (bench/memory.lua measures the memory.)

local json = require "dkjson"
local cqueues = require "cqueues"
local etcdlock = require "etcdlock"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local HELD, ABREAST = 10000, 100 -- number of locks, and of coroutines that take them

local client = assert(etcdlock.connect {
  endpoints = json.decode(arg[1]).endpoint, env = false,
})

local function take_all()
  local loop, held = cqueues.new(), {}
  for begin = 1, ABREAST do
    loop:wrap(function()
      for i = begin, HELD, ABREAST do held[i] = assert(client:lock("held/" .. i)) end
    end)
  end
  assert(loop:loop())
  return held
end

-- Returns the seconds of CPU time that this process has used.
local function cpu()
  local usage = uv.getrusage()
  return usage.utime.sec + usage.stime.sec + (usage.utime.usec + usage.stime.usec) / 1e6
end

-- Sleeps for |seconds|. Returns the use of a core in percent, and requests per second, during that
-- time.
local function window(seconds)
  local rpcs, used, from = client:stats().rpcs, cpu(), uv.hrtime()
  uv.sleep(seconds * 1000)
  local took = (uv.hrtime() - from) / 1e9
  return {
    cpu_percent = (cpu() - used) / took * 100,
    rpcs = (client:stats().rpcs - rpcs) / took,
  }
end

local function assert_held(list)
  for _, lock in ipairs(list) do
    if not lock:held() then error(lock:name() .. " was lost: " .. lock:wait_lost(0)) end
  end
end

local held = take_all()
wait.eventually(function() return client:stats().watches >= HELD end, 20, "all are watched")
io.stdout:setvbuf "line"
print "ready"
for line in io.lines() do
  local sample = window(json.decode(line).seconds)
  assert_held(held)
  print(json.encode(sample))
end
client:close()
