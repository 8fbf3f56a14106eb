-- Measures etcdlock in nginx on this machine, against a private etcd. Not a spec: run `make
-- figures`. It prints four figures, each with its limit:
--   - The response time and the CPU time of a worker while 500 of its nginx requests wait.
--   - The time from unlock() in one process to the return of lock() in another, if one is nginx.
--   - The file descriptors that the locks of one nginx request cost.
--   - The response time of a worker while clients of that worker end.

local Etcd = require "spec.support.servers.etcd"
local Nginx = require "spec.support.servers.nginx"
local etcdlock = require "etcdlock"
local handoff = require "spec.support.programs.handoff"
local http = require "spec.support.servers.http"
local measure = require "bench.measure"
local program = require "bench.program"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local WAITERS = 500
local SECONDS = 2 -- seconds of each measurement with pings
local HOLDS = 600 -- number of holds of each contender
local HELD = 100 -- number of locks that one nginx request holds
local IDLE = 11 -- seconds after which a worker has closed its idle connections: it keeps them 10 s
local ENDS = 20 -- number of clients that end

local function say(...)
  print(string.format(...))
end

local LOCATIONS = {
  ["/ping"] = [[ ngx.say "pong" ]],
  ["/waiting"] = [[ ngx.say(client:stats().waiting) ]],
  ["/lock"] = [[
    local lock = assert(client:lock "crowd")
    assert(lock:unlock())
  ]],
  ["/hold"] = [[
    local locks = {}
    for i = 1, tonumber(ngx.var.arg_count) do locks[i] = assert(client:lock("held/" .. i)) end
    shared:set("held", #locks)
    while shared:get "held" do ngx.sleep(0.01) end
    for _, lock in ipairs(locks) do assert(lock:unlock()) end
  ]],
  ["/held"] = [[ ngx.say(shared:get "held") ]],
  ["/release"] = [[ shared:delete "held" ]],
  -- Connects clients, each of which takes its own lock.
  ["/connect"] = [[
    clients = {}
    for i = 1, tonumber(ngx.var.arg_count) do
      clients[i] = connect()
      locks[i] = assert(clients[i]:lock("client/" .. i))
    end
  ]],
  ["/close"] = [[
    for _, one in ipairs(clients) do one:close() end
  ]],
  ["/drop"] = [[
    clients, locks = {}, {}
    collectgarbage()
    collectgarbage()
  ]],
  -- Answers one line for each hold, as the contenders of handoff.lua print it.
  ["/contend"] = [[
    local lines = {}
    for i = 1, tonumber(ngx.var.arg_holds) do
      local lock = assert(client:lock "handoff")
      local got = clock()
      local token = lock:token()
      local left = clock()
      assert(lock:unlock())
      lines[i] = ("%.0f %.0f %.0f"):format(token, got, left)
    end
    ngx.say(table.concat(lines, "\n"))
  ]],
}

local INIT_WORKER = [[
  function connect() return assert(etcdlock.connect { endpoints = "%s" }) end
  client, clients, locks = connect(), {}, {}
  local ffi = require "ffi"
  ffi.cdef "typedef struct { long s, ns; } spec_time; int clock_gettime(int, spec_time *);"
  local time = ffi.new "spec_time"
  -- Nanoseconds on the clock that all processes share.
  function clock()
    ffi.C.clock_gettime(1, time)
    return tonumber(time.s) * 1e9 + tonumber(time.ns)
  end
]]

-- ---- a worker with waiting requests ----

-- Returns the milliseconds until the answer of one ping. It runs the loop itself, because
-- wait.eventually would add its pauses.
local function ping(nginx)
  local from = uv.hrtime()
  local request = http.start(nginx.port, "/ping")
  while not request.done do uv.run "once" end
  assert(request.status == 200, request.failure)
  return (uv.hrtime() - from) / 1e6
end

-- Sends pings, one after the other, until is_over() returns true. Returns their times in ms.
local function pings(nginx, is_over)
  local times = {}
  repeat
    times[#times + 1] = ping(nginx)
    wait.sleep(0.002)
  until is_over()
  return times
end

-- Returns a function that returns whether |seconds| have passed since now.
local function after(seconds)
  local deadline = wait.now() + seconds
  return function() return wait.now() >= deadline end
end

-- Returns the percentage of one core that the process |pid| uses during the next |seconds|.
local function cpu_percent(pid, seconds)
  local before, from = Nginx.usage(pid).cpu, wait.now()
  wait.sleep(seconds)
  return (Nginx.usage(pid).cpu - before) / (wait.now() - from) * 100
end

local function crowd(etcd, nginx)
  local pid = nginx:workers()[1]
  local client = assert(etcdlock.connect { endpoints = etcd:endpoint() })
  say("/ping of one worker while %d of its requests wait for a lock (limit: p99 5 ms, CPU 5 %%)",
    WAITERS)
  say("  none waits: %s", measure.summary(pings(nginx, after(SECONDS))))
  local lock, requests = assert(client:lock "crowd"), {}
  for i = 1, WAITERS do requests[i] = nginx:begin "/lock" end
  wait.eventually(function()
    return tonumber(nginx:get("/waiting").body) == WAITERS
  end, 20, "all wait")
  local cpu = cpu_percent(pid, SECONDS)
  local times = pings(nginx, after(SECONDS))
  say("  %d wait: %s; CPU without pings %.1f %%", WAITERS, measure.summary(times), cpu)
  local from = wait.now()
  assert(lock:unlock())
  for i = 1, WAITERS do assert(requests[i]:wait(30).status == 200) end
  say("  and then all %d in %.2f s", WAITERS, wait.now() - from)
  client:close()
end

-- ---- hand-off ----

local function handoffs(etcd, nginx)
  local child = handoff.contender(etcd:endpoint(), HOLDS)
  child:send "go"
  local request = nginx:begin("/contend?holds=" .. HOLDS):wait(60)
  local to = handoff.times { nginx = request.body, child = handoff.holds_of(child, HOLDS) }
  say("Hand-off between nginx and another process, both hold for 0 ms: from unlock() in one to")
  say("lock() returned in the other (limit: p50 3 ms, p99 15 ms)")
  say("  %d to a request in nginx: %s", #to.nginx, measure.summary(to.nginx))
  say("  %d to the other process: %s", #to.child, measure.summary(to.child))
end

-- ---- held locks ----

local function held(nginx)
  local pid = nginx:workers()[1]
  assert(nginx:get("/lock").status == 200)
  wait.sleep(IDLE) -- so that the worker has closed the connection of that lock
  local before = Nginx.usage(pid).descriptors
  say("Descriptors that the locks of one request cost its worker, with the request's own (limit 3,"
    .. " and 2 of a connection that is kept for the next wait)")
  for _, count in ipairs { 1, HELD } do
    local request = nginx:begin("/hold?count=" .. count)
    wait.eventually(function()
      return tonumber(nginx:get("/held").body) == count
    end, 20, "all are held")
    say("  %d held: %d", count, Nginx.usage(pid).descriptors - before)
    nginx:get "/release"
    assert(request:wait(20).status == 200)
    wait.sleep(IDLE)
  end
end

-- ---- the end of clients ----

local function ends(etcd, nginx)
  say("/ping while clients of the same worker, each with a lock, end; etcd is stopped (limit: p99"
    .. " 10 ms)")
  for _, path in ipairs { "/close", "/drop" } do
    assert(nginx:get("/connect?count=" .. ENDS, { seconds = 30 }).status == 200)
    etcd:pause()
    local request, is_over = nginx:begin(path), after(SECONDS)
    local times = pings(nginx, function() return request.done and is_over() end)
    assert(request.status == 200, request.failure)
    etcd:resume()
    local how = path == "/close" and "closed one after the other" or "dropped and collected"
    say("  %d are %s: %s", ENDS, how, measure.summary(times))
  end
end

-- ---- all of them ----

-- The specs run etcd without fsync. These figures need fsync, as in production.
program(function()
  local etcd = Etcd.start { args = { "--unsafe-no-fsync=false" } }
  say("nginx, and one member of etcd on this machine, with fsync")
  local nginx = Nginx.start {
    init_worker = INIT_WORKER:format(etcd:endpoint()),
    locations = LOCATIONS,
  }
  crowd(etcd, nginx)
  handoffs(etcd, nginx)
  held(nginx)
  ends(etcd, nginx)
end)
