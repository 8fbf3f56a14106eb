-- The program of `make fleets` for etcdlock: starts clients at once, in one event loop, each with a
-- lock of its own.
--
--   fleet.lua ENDPOINTS NAME CLIENTS TTL    prints "held I" and "lost I" with a client's number

local cqueues = require "cqueues"
local etcdlock = require "etcdlock"

local endpoints, name, count, ttl = arg[1], arg[2], tonumber(arg[3]), tonumber(arg[4])

local function run(i)
  local client = assert(etcdlock.connect {
    endpoints = endpoints, ttl = ttl, user = "locker", password = os.getenv "FLEET_PASSWORD",
  })
  while true do
    local lock, message = client:lock(("%s/%d"):format(name, i))
    if lock then
      print("held " .. i)
      lock:wait_lost()
      print("lost " .. i)
      break
    end
    io.stderr:write(message, "\n")
    cqueues.sleep(0.1)
  end
end

io.stdout:setvbuf "line"
local loop = cqueues.new()
for i = 1, count do loop:wrap(function() run(i) end) end
assert(loop:loop())
