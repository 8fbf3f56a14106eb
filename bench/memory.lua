-- Measures the memory of a held lock, for the table in doc/performance.md, with an etcd of its own.
-- Each row runs in a process of its own, because memory that was freed stays with a process.
--
--   memory.lua [ROW ENDPOINT]

local Etcd = require "spec.support.servers.etcd"
local core = require "etcdlock.core"
local etcdlock = require "etcdlock"
local proc = require "spec.support.programs.proc"
local uv = require "luv"

local HELD, ABREAST = 10000, 100 -- number of locks, and of those that are taken at once

-- The name of each row, and start(client, i), which begins to take the lock |i| and returns the
-- pending lock, and what the program keeps besides.
local ROWS = {
  { "a held lock", function(client, i)
    return assert(client:lock_async("held/" .. i))
  end },
  { "with `owner`, `value` (20 bytes), `timeout` and `max_hold`", function(client, i)
    return assert(client:lock_async("held/" .. i, {
      owner = "order " .. i, value = ("%020d"):format(i), timeout = 60, max_hold = 3600,
    }))
  end },
  { "in a coroutine of its own", function(client, i)
    local thread = coroutine.create(function()
      coroutine.yield(assert(client:lock_async("held/" .. i)))
    end)
    local _, pending = assert(coroutine.resume(thread))
    return pending, thread
  end },
}

-- Returns the resident memory of this process in bytes, and how many bytes are on Lua's heap.
local function memory()
  collectgarbage()
  collectgarbage()
  return uv.resident_set_memory(), collectgarbage "count" * 1024
end

local function take_all(client, start)
  local held, kept = {}, {}
  for begin = 1, HELD, ABREAST do
    local pending = {}
    for i = begin, begin + ABREAST - 1 do pending[i], kept[i] = start(client, i) end
    for i, each in pairs(pending) do
      repeat
        held[i] = each:step()
        if held[i] == false then uv.sleep(1) end
      until held[i] ~= false
      assert(held[i])
    end
  end
  repeat uv.sleep(1) until client:stats().watches >= HELD
  return held, kept
end

local function measure(row, endpoint)
  local client = assert(etcdlock.connect { endpoints = endpoint, env = false })
  -- The first lock creates the session, whose memory is not that of a lock.
  assert(assert(client:lock "first"):unlock())
  local bytes_before, on_heap_before = memory()
  local held, kept = take_all(client, row[2])
  local bytes, on_heap = memory()
  print(("| %s | %.0f | %.0f | %d |"):format(row[1], (bytes - bytes_before) / HELD,
    (on_heap - on_heap_before) / HELD, core.HOLD_SIZE))
  assert(#held == HELD and kept)
  client:close()
end

if arg[1] then
  measure(ROWS[tonumber(arg[1])], arg[2])
  return
end
local etcd = Etcd.start()
print "| | memory of the process | of these on Lua's heap | of these in the core's structs |"
print "|---|--:|--:|--:|"
for i in ipairs(ROWS) do
  local out, status, err = proc.run_lua("bench/memory.lua", { i, etcd:endpoint() },
    { seconds = 300 })
  io.write(out, err)
  assert(status == 0)
end
etcd:stop()
proc.shut_down()
