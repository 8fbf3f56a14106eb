-- The program of the row deadlines. All members of etcd are stopped one second after the begin of
-- each window. `late` is a list: by how many ms each call returned later than its limit.

local json = require "dkjson"
local etcdlock = require "etcdlock"
local uv = require "luv"

local job = json.decode(arg[1])

local function now() return uv.hrtime() / 1e9 end

-- Calls |call|. Returns by how many ms it took longer than |limit| seconds, at least 0.
local function lateness(limit, call)
  local from = now()
  call()
  return math.max(0, (now() - from - limit) * 1000)
end

local function window()
  local client = assert(etcdlock.connect { endpoints = job.endpoint, ttl = 60, env = false })
  local lock, second = assert(client:lock "held"), assert(client:lock "second")
  uv.sleep(1500)
  local late = {}
  for i = 1, 10 do
    local timeout = i / 20
    late[i] = lateness(timeout, function() client:lock("silent", { timeout = timeout }) end)
  end
  late[11] = lateness(2, function() client:try_lock "silent" end)
  late[12] = lateness(2, function() lock:unlock() end)
  late[13] = lateness(5, function() second:put("silent", "v") end)
  late[14] = lateness(0.5, function() client:close() end)
  return late
end

io.stdout:setvbuf "line"
print "ready"
for _ in io.lines() do print(json.encode { late = window() }) end
