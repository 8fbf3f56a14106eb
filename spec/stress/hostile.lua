-- Stress test: `hostile.lua SECONDS SEED`. Clients use locks of all modes on a real etcd, and a
-- scripted server changes etcd's messages at random. Only these promises hold then: the process
-- does not crash; each call returns in time, with a result or with nil, message and code; and each
-- message is one line. Prints one line of figures. Exits with 1 if a promise was broken.

local Etcd = require "spec.support.servers.etcd"
local Random = require "spec.stress.random"
local Scripted = require "spec.support.servers.scripted"
local etcdlock = require "etcdlock"
local leaks = require "spec.support.harness.leaks"
local proc = require "spec.support.programs.proc"
local wait = require "spec.support.harness.wait"

local seconds, seed = tonumber(arg[1]), tonumber(arg[2])
if not seconds or not seed then error("usage: hostile.lua SECONDS SEED", 0) end

local CLIENTS, NAMES = 3, { "a", "b", "c/d" }
local TIMEOUT = 0.4 -- seconds of each acquisition
local LATE = 8 -- seconds by which a call may be late on a busy machine, under a sanitizer
local PERCENT = { 1, 5, 20, 60 } -- percentages of changed messages, one for each turn
local TURN = 100 -- number of calls in a turn
local CODES = {}
for code in ([[timeout locked deadlock not_held lost cancelled closed unavailable unauthenticated
  denied no_space invalid conflict context protocol]]):gmatch "%a[%a_]*" do
  CODES[code] = true
end

local random = Random.new(seed)
local is_misled = false -- a client takes etcd for another cluster, and is of no use any more
local figures = { calls = 0, ok = 0 }
local violations = 0
local list, held, pending = {}, {}, {}

local function violation(form, ...)
  violations = violations + 1
  print("VIOLATION: " .. form:format(...))
end

-- Checks what the call |what| has returned.
local function check(what, took, limit, ok, result, message, code)
  figures.calls = figures.calls + 1
  if took > limit + LATE then violation("%s took %.1f s, seed %d", what, took, seed) end
  if not ok then
    violation("%s raised %s, seed %d", what, tostring(result), seed)
    return nil
  elseif result or message == nil then
    figures.ok = figures.ok + 1
    return result
  end
  figures[code or "?"] = (figures[code or "?"] or 0) + 1
  is_misled = is_misled or code == "conflict"
  if not CODES[code] then violation("%s has the code %s: %s", what, tostring(code), message) end
  if type(message) ~= "string" or message == "" or message:find "[%z\1-\31\127]" then
    violation("%s has the message %q", what, tostring(message))
  end
  return nil, code
end

local function call(what, limit, run, ...)
  local from = wait.now()
  local function finish(...) return check(what, wait.now() - from, limit, ...) end
  return finish(pcall(run, ...))
end

-- ---- calls ------------------------------------------------------------------------------

local function connect(i, server)
  list[i] = assert(etcdlock.connect { endpoints = server:endpoint(), ttl = 2, prefix = "hostile/",
    env = false, log = function(event)
      if tostring(event):find "[%z\1-\31\127]" then violation("event %q", tostring(event)) end
    end })
  held[i], pending[i] = {}, {}
end

local function options()
  local opts = { timeout = random:real(0, TIMEOUT), owner = random:whole(1, 3) }
  if random:chance(0.2) then
    opts.linger = random:real(0.01, 1)
  end
  if random:chance(0.1) then opts.max_hold = random:real(0.05, 0.5) end
  if random:chance(0.3) then opts.value = "value" end
  return opts
end

local function keep(i, lock)
  if lock then table.insert(held[i], lock) end
end

local function pick_held(i)
  return #held[i] > 0 and held[i][random:whole(1, #held[i])] or nil
end

local ACTIONS = {
  { 20, function(i, client, name)
    local kind = random:pick { "lock", "read_lock", "write_lock" }
    keep(i, call(kind, TIMEOUT, client[kind], client, name, options()))
  end },
  { 10, function(i, client, name)
    local opts = options()
    opts.timeout = nil
    local kind = random:pick { "try_lock", "try_read_lock", "try_write_lock" }
    keep(i, call(kind, TIMEOUT + 5, client[kind], client, name, opts))
  end },
  { 5, function(i, client)
    local opts = options()
    opts.linger = nil
    keep(i, call("multi_lock", TIMEOUT, client.multi_lock, client, NAMES, opts))
  end },
  { 5, function(i, client, name)
    local semaphore = assert(client:semaphore(name, 2))
    local opts = options()
    opts.linger = nil
    keep(i, call("semaphore", TIMEOUT, semaphore.lock, semaphore, opts))
  end },
  { 8, function(i, client, name)
    if #pending[i] >= 4 then return end
    local waiter = call("lock_async", 0, client.lock_async, client, name, options())
    if waiter then table.insert(pending[i], waiter) end
  end },
  { 8, function(i)
    local waiter = table.remove(pending[i], 1)
    if not waiter then return end
    local lock = call("step", 0, waiter.step, waiter)
    if lock then
      keep(i, lock)
    elseif lock == false and random:chance(0.8) then
      table.insert(pending[i], waiter)
    else
      call("cancel", 0, waiter.cancel, waiter)
    end
  end },
  { 20, function(i)
    local lock = table.remove(held[i], 1)
    if lock then call("unlock", 5, lock.unlock, lock) end
  end },
  { 10, function(i)
    local lock = pick_held(i)
    if not lock then return end
    call("check", 6, lock.check, lock)
    if lock:mode() == "lock" then
      call("put", 6, lock.put, lock, "hostile-data", "v")
      call("get", 6, lock.get, lock, "hostile-data")
    end
  end },
  { 3, function(i)
    local lock = pick_held(i)
    if lock then call("wait_lost", 0.1, lock.wait_lost, lock, 0.05) end
  end },
  { 6, function(_, client, name) call("queue", 6, client.queue, client, name) end },
  { 2, function(_, client) call("queues", 20, client.queues, client) end },
  { 2, function(_, client) call("status", 6, client.status, client) end },
}

-- ---- run --------------------------------------------------------------------------------

local function step(servers)
  local i = random:whole(1, CLIENTS)
  random:weighted(ACTIONS)(i, list[i], random:pick(NAMES))
  if is_misled or random:chance(0.005) then
    call("close", 1, list[i].close, list[i])
    connect(i, servers[i])
    is_misled = false
  end
end

local function run(etcd)
  local servers = {}
  for i = 1, CLIENTS do
    servers[i] = Scripted.start(etcd:endpoint())
    connect(i, servers[i])
  end
  local ends, turn = wait.now() + seconds, 0
  while wait.now() < ends do
    turn = turn + 1
    for i = 1, CLIENTS do
      servers[i]:mutate(seed + turn * 10 + i, PERCENT[turn % #PERCENT + 1])
    end
    for _ = 1, TURN do step(servers) end
  end
  figures.mutated = 0
  for i = 1, CLIENTS do
    figures.mutated = figures.mutated + servers[i]:mutated()
    servers[i]:mutate(0, 0)
    call("close", 1, list[i].close, list[i])
  end
  -- When the leases of the other clients have ended, a client whose messages are not changed must
  -- get all locks.
  local client = assert(etcdlock.connect { endpoints = etcd:endpoint(), prefix = "hostile/",
    env = false })
  for _, name in ipairs(NAMES) do
    local lock, message = client:lock(name, { timeout = 60 })
    if lock then lock:unlock() else violation("%s is not free at the end: %s", name, message) end
  end
  client:close()
  for i = 1, CLIENTS do servers[i]:stop() end
end

require("etcdlock.core").connect({ endpoints = { "127.0.0.1:1" }, ttl = 2 }):close(0.1)
local etcd = Etcd.start { tls = false }
local before = leaks.snapshot()
local ok, failure = xpcall(run, debug.traceback, etcd)
if not ok then violation("error: %s", failure) end
list, held, pending = {}, {}, {}
collectgarbage()
collectgarbage()
etcd:stop()
if ok then
  ok, failure = pcall(leaks.assert_none_left, before)
  if not ok then violation("%s", failure) end
end
proc.shut_down()
local words = {}
for name, number in pairs(figures) do words[#words + 1] = name .. " " .. number end
table.sort(words)
print(("%s, violations %d, seed %d"):format(table.concat(words, ", "), violations, seed))
os.exit(violations == 0 and 0 or 1, true)
