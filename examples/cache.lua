-- A cache that is filled once in the cluster: five processes want the same page at
-- once, one of them renders it, the others find it.

local etcdlock = require "etcdlock"
local start = require "examples.start"
local uv = require "luv"

local PAGE = "page/news"
local client = assert(etcdlock.connect { timeout = 30 })

-- What is cached, or else what compute() returns, which then is.
local function cached(key, compute)
  return client:with_lock(key, function(lock)
    local value = lock:get(key)
    if value then return value, "found" end
    value = compute()
    assert(lock:put(key, value)) -- not if we lost the lock meanwhile
    return value, "rendered"
  end)
end

local function render()
  uv.sleep(300)
  return "the news, by process " .. arg[1]
end

if arg[1] then
  local _, page, how = assert(cached(PAGE, render))
  print(("process %s has %s it: %s"):format(arg[1], how, page))
else
  assert(client:with_lock(PAGE, function(lock) assert(lock:delete(PAGE)) end)) -- of last time
  for number = 1, 5 do start(number) end -- this file again
  uv.run() -- until all five have ended
end
client:close()
