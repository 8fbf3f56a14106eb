-- Does pairs of lock and unlock, for bench/cost.lua:
--
--   pairs.lua WORK PAIRS ENDPOINT [count]
--
-- WORK is a field of `works`. With `count`, prints how many instructions of the Lua VM a pair
-- takes, and how many bytes it allocates on Lua's heap.

local cqueues = require "cqueues"
local etcdlock = require "etcdlock"

local work, n, endpoint, is_counted = arg[1], tonumber(arg[2]), arg[3], arg[4] == "count"
-- All handoffs are of one key, because the cost of a new key depends on which coroutine runs first.
local client = assert(etcdlock.connect {
  endpoints = endpoint, env = false, handoff = 100000, handoff_time = 60,
})
local instructions = 0

-- Counts the instructions of the running coroutine from now on.
local function count()
  if is_counted then debug.sethook(function() instructions = instructions + 1 end, "", 1) end
end

local function lock_pairs(name, pairs, options)
  count()
  for _ = 1, pairs do assert(assert(client:lock(name, options)):unlock()) end
  debug.sethook()
end

local works = {}

function works.free(pairs) lock_pairs("free", pairs) end

-- The floor: a put and a delete through the same core.
function works.put(pairs)
  local lock = assert(client:lock "put")
  count()
  for _ = 1, pairs do
    assert(lock:put("floor", ""))
    assert(lock:delete "floor")
  end
  debug.sethook()
  assert(lock:unlock())
end

function works.reentrant(pairs)
  local lock = assert(client:lock "reentrant")
  lock_pairs("reentrant", pairs)
  assert(lock:unlock())
end

function works.linger(pairs) lock_pairs("linger", pairs, { linger = 60 }) end

function works.handoff(pairs)
  local loop = cqueues.new()
  for _ = 1, 2 do loop:wrap(function() lock_pairs("handoff", pairs / 2) end) end
  assert(loop:loop())
end

works[work](2) -- the first pair creates the session
instructions = 0
if is_counted then collectgarbage "stop" end
local before = collectgarbage "count"
works[work](n)
if is_counted then print(instructions / n, (collectgarbage "count" - before) * 1024 / n) end
client:close()
