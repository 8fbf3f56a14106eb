-- A cache that is filled once in the cluster. Five processes need the same page at the same time:
-- one of them renders the page and stores it in etcd, and the others find it there.

local etcdlock = require "etcdlock"
local start = require "examples.start"
local uv = require "luv"

local PAGE = "page/news"
local client = assert(etcdlock.connect { timeout = 30 })

-- Returns true, the value of `key` in the cache, and "found". If there is no value, stores the
-- result of compute(), and returns true, that result and "rendered". On failure returns nil,
-- message, code, or raises an error.
local function cached(key, compute)
  return client:with_lock(key, function(lock)
    local value = assert(lock:get(key, "")) -- fails if etcd cannot be read
    if value ~= "" then return value, "found" end
    value = compute()
    assert(lock:put(key, value)) -- fails if the lock was lost meanwhile
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
  assert(client:with_lock(PAGE, function(lock) assert(lock:delete(PAGE)) end)) -- of an earlier run
  for number = 1, 5 do start(number) end -- five processes that run this file
  uv.run() -- until all five have ended
end
client:close()
