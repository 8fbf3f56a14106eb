-- Three readers load a configuration: two keys, one after the other. Two deployers change it. No
-- reader loads one key from before a change and the other from after it. After its change a
-- deployer downgrades its write lock to a read lock, and tests the change. During the test, readers
-- that came before the other deployer can read; that deployer must wait.
local etcdlock = require "etcdlock"
local start = require "examples.start"
local uv = require "luv"

local client = assert(etcdlock.connect { timeout = 30 })

local function read(lock)
  return assert(lock:get("shop/hosts", "0")), assert(lock:get("shop/routes", "0"))
end

local function deploy(lock)
  local version = ("%d"):format(read(lock) + 1)
  -- one transaction, so that a deployer that is killed leaves no half change
  assert(lock:txn { { "put", "shop/hosts", version }, { "put", "shop/routes", version } })
  print(("deployer: version %s is there, to be tested"):format(version))
  assert(lock:downgrade())
  uv.sleep(200) -- stands for the test
  print(("deployer: version %s is good: hosts %s, routes %s"):format(version, read(lock)))
end

if arg[1] == "deployer" then
  assert(client:with_write_lock("config", deploy))
elseif arg[1] == "reader" then
  for _ = 1, 5 do
    local _, hosts, routes = assert(client:with_read_lock("config", read))
    print(("reader %s: hosts %s, routes %s"):format(arg[2], hosts, routes))
    uv.sleep(100)
  end
else
  local first = { { "put", "shop/hosts", "0" }, { "put", "shop/routes", "0" } }
  assert(client:with_write_lock("config", function(lock) assert(lock:txn(first)) end))
  for number = 1, 3 do start("reader", number) end -- processes that run this file
  for _ = 1, 2 do start "deployer" end
  uv.run() -- until all five have ended
end
client:close()
