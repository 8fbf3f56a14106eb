-- The purpose of the fencing token. The first holder is stopped for longer than its TTL and loses
-- the lock. The second holder writes. Then the first holder continues with its own write, too late.
local etcdlock = require "etcdlock"
local start = require "examples.start"
local uv = require "luv"
local plain, checked = arg[1] or os.tmpname(), arg[2] or os.tmpname()
local client = assert(etcdlock.connect { ttl = 2 })

local function save(file, text)
  local handle = assert(io.open(file, "w"))
  handle:write(text, "\n")
  handle:close()
end

local function write_all(lock, who)
  save(plain, who)
  -- This store checks tokens: it remembers the largest token and refuses writes with a smaller one.
  local newest = tonumber((io.lines(checked)() or "0"):match "%d+")
  local accepted = lock:token() >= newest
  if accepted then save(checked, ("%d %s"):format(lock:token(), who)) end
  local ok, _, code = lock:put("fencing-example", who)
  print(("%s: plain file: written; checking store: %s; lock:put: %s"):format(
    who, accepted and "written" or "refused", ok and "written" or "refused, " .. code))
end

if arg[1] then -- the first holder: stops itself until the second holder sends SIGCONT
  local lock = assert(client:lock("fencing", { timeout = 30 }))
  uv.kill(uv.os_getpid(), "sigstop")
  return write_all(lock, "first holder")
end

local first = start(plain, checked) -- a process that runs this file
repeat uv.sleep(20) until assert(client:queue "fencing")[1]
write_all(assert(client:lock("fencing", { timeout = 30 })), "second holder")
first:kill "sigcont"
uv.run() -- until the first holder has ended
print("left: plain file: " .. io.lines(plain)() .. "; checking store: " .. io.lines(checked)())
for _, file in ipairs { plain, checked } do os.remove(file) end
