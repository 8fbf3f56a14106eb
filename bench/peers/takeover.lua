-- The program of the row takeover. In each window, the holders of several locks are killed, and
-- `takeover` are the seconds until the next client in the queue of each holds its lock.

local json = require "dkjson"
local proc = require "spec.support.programs.proc"
local uv = require "luv"

-- Takes a lock when it is sent a line, prints the time of the grant, and holds the lock until its
-- input ends.
local HOLDER = [[
  local endpoint, name = ...
  local client = assert(require("etcdlock").connect { endpoints = endpoint, ttl = 2 })
  print "ready"
  io.read()
  local lock = assert(client:lock(name))
  print(("held %.9f"):format(require("luv").hrtime() / 1e9))
  io.read()
  client:close()
]]

local job = json.decode(arg[1])
local count = 0

local function start()
  local child = proc.lua(HOLDER, job.endpoint, ("killed/%d"):format(count))
  child:expect("^ready", 30)
  return child
end

local function take(child)
  child:send "take"
  return child:expect("^held (%S+)", 30)
end

local function window()
  local holders, successors, killed, times = {}, {}, {}, {}
  for i = 1, job.owners do
    count = count + 1
    holders[i], successors[i] = start(), start()
    take(holders[i])
    successors[i]:send "take"
  end
  uv.sleep(2000) -- each client has renewed its lease by then, each at another time
  for i, holder in ipairs(holders) do
    killed[i] = uv.hrtime() / 1e9
    holder:kill "sigkill"
    uv.sleep(50)
  end
  for i, successor in ipairs(successors) do
    times[i] = successor:expect("^held (%S+)", 30) - killed[i]
  end
  proc.destroy_children()
  return times
end

io.stdout:setvbuf "line"
print "ready"
for _ in io.lines() do print(json.encode { takeover = window() }) end
proc.shut_down()
