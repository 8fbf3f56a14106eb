--- Makes calls of a program fail for tests. This module puts a function around each method of
-- clients, locks, semaphores, elections and observers that may fail in a test. While `run` has a
-- plan, this function asks the plan for the outcome of the call.
local Client = require "etcdlock.client"
local Election = require "etcdlock.election"
local Lock = require "etcdlock.lock"
local Observer = require "etcdlock.observer"
local Semaphore = require "etcdlock.semaphore"
local check = require "etcdlock.check"
local coroutines = require "etcdlock.coroutines"
local names = require "etcdlock.names"

local M = {
  --- Set of the clients that count as other processes. No plan applies to their calls.
  others = setmetatable({}, { __mode = "k" }),
  --- Outcome -> the code with which the call then fails.
  CODES = {
    timeout = "timeout", locked = "locked", lost = "lost", unavailable = "unavailable",
    applied = "unavailable",
  },
  --- Reason of a loss -> true: end_hold deletes the key, and the lock reports this reason. For the
  -- other reasons end_hold does what the reason says.
  REASONS = {
    expired = true, revoked = true, cluster_changed = true,
    deleted = false, replaced = false, max_hold = false,
  },
}

local unpack_list = table.unpack or unpack -- luacheck: ignore unpack

local function pack(...)
  return { n = select("#", ...), ... }
end

-- ---- holds ----

local program = setmetatable({}, { __mode = "k" }) -- set of the clients that the program has used
local pretended = setmetatable({}, { __mode = "k" }) -- core lock -> reason
local check_lock, read_queue = Lock.check, Client.queue

-- Makes the core locks in `pretended` report the reasons there.
local function pretend_reasons(core_lock)
  local methods = debug.getmetatable(core_lock).__index
  local get_loss = methods.loss
  function methods.loss(lost)
    local reason, text = get_loss(lost)
    local other = reason and pretended[lost]
    return other or reason, other and other .. " (made by etcdlock.testing)" or text
  end
  pretend_reasons = nil
end

-- Returns true if a queue of `lock` has the key of its hold.
local function is_queued(lock)
  for _, name in ipairs(lock:names()) do
    for _, entry in ipairs(assert(read_queue(lock._client, name))) do
      if entry.token == lock:token() then
        return true
      end
    end
  end
  return false
end

--- Ends the hold of `lock`, which is held. Returns when its client knows of the loss and, unless
-- other readers hold by the same key, no queue has the hold's keys.
function M.end_hold(lock, reason)
  if reason == "max_hold" then
    lock._core:expire(0.001)
  else
    if pretend_reasons then
      pretend_reasons(lock._core)
    end
    pretended[lock._core] = M.REASONS[reason] and reason or nil
    local txn = lock._client._core:txn()
    if reason == "replaced" then
      txn:put(lock:key(), "")
    else
      txn:delete(lock:key())
    end
    lock._client:_run_txn(txn)
  end
  repeat
    check_lock(lock) -- the client learns of the loss, and runs the on_lost functions
  until not lock:_left()
  for other in pairs(M.find_holds()) do
    if other:key() == lock:key() then
      return
    end
  end
  while is_queued(lock) do
  end
end

-- Lock -> place of the call that took it, "FILE:LINE".
local taken_at = setmetatable({}, { __mode = "k" })

--- Returns the words, for a message, for a lock that the program holds.
function M.describe_hold(lock)
  local place = taken_at[lock]
  return ("%s%s is still held"):format(names.describe_lock(lock),
    place and ", taken at " .. place .. "," or "")
end

--- Returns the set of the locks that the program holds.
function M.find_holds()
  local holds = {}
  for client in pairs(program) do
    for _, lock in pairs(client._held_locks._locks) do
      holds[lock] = lock:_left() and true
    end
    for _, sharers in pairs(client._held_locks._sharers) do
      for lock in pairs(sharers) do
        holds[lock] = lock:_left() and true
      end
    end
  end
  return holds
end

-- ---- outcomes ----

-- The argument `new_plan` of run; nil: each call does what it always does.
local plan

-- Thread -> true while it runs a call of the program. The calls that this call makes are not calls
-- of the program.
local inside = setmetatable({}, { __mode = "k" })
local MAIN = {} -- the thread where coroutines.running() returns nil

-- A call by call_inside, for coroutines.call_with_cleanup: `thread`, and the values of
-- inside[thread] `before` the call and `during` it.
local Call = {}
Call.__index = Call

function Call:begin()
  inside[self.thread] = self.during
  return true
end

function Call.enter() end

function Call:leave()
  inside[self.thread] = self.before
end

Call.__close = Call.leave

function Call.report() end

-- Calls fn(...) with `inside` of this thread set to `value`. Returns the results as a packed list.
local function call_inside(value, fn, ...)
  local thread, args = coroutines.running() or MAIN, pack(...)
  local call = setmetatable({ thread = thread, before = inside[thread], during = value }, Call)
  return pack(select(2, coroutines.call_with_cleanup(call, function()
    return fn(unpack_list(args, 1, args.n))
  end)))
end

-- Returns "FILE:LINE" of the nearest caller outside etcdlock.
local function find_place()
  local _, position = pcall(check.raise, "")
  return position:match "^(.*): $" or "?"
end

-- Returns the outcome that the plan has for `call`, if it is one of `outcomes`; else nil.
local function choose(call, outcomes)
  call.outcomes = outcomes
  local chosen = plan and plan(call)
  for _, outcome in ipairs(outcomes) do
    if outcome == chosen then
      return outcome
    end
  end
end

-- Returns the packed results of a call that fails with the outcome.
local function fail(call, outcome)
  local code = M.CODES[outcome]
  local text = string.format("%s: %s (made by etcdlock.testing)", call.name, code)
  return pack(nil, text, code)
end

-- ---- kinds of calls ----
-- A kind is a function kind(call, self, args) that is called before the method; `args` are the
-- packed arguments. It may change them. It may return two values, each of which may be nil:
--   after(results)  is called with the packed results of the method. If it returns a list, that is
--                   what the program gets
--   results         packed results for the program; the method is not called

-- Returns the outcome for a call that has got `lock`. A call that takes a lock again cannot fail.
local function choose_grant(call, lock)
  local timeout = lock._timeout
  return lock:count() == 1 and choose(call, timeout == 0 and { "locked", "unavailable" }
    or { "lost", "unavailable", timeout and "timeout" })
end

-- A call that returns a lock.
local function take(call)
  return function(results)
    local lock = results[1]
    local outcome = lock and choose_grant(call, lock)
    if outcome then
      lock:unlock()
      return fail(call, outcome)
    elseif lock then
      taken_at[lock] = taken_at[lock] or call.place
    end
  end
end

-- Calls fn(lock) and returns its results. If `is_lost`, the hold is lost at the end.
local function call_and_lose(fn, lock, is_lost)
  local results = call_inside(nil, fn, lock)
  if is_lost and lock:_left() then
    M.end_hold(lock, "expired")
  end
  return unpack_list(results, 1, results.n)
end

-- A call that passes a lock to a function, which is the last argument. "lost" is a loss at the end
-- of the function.
local function take_with(call, _, args)
  local fn, refused = args[args.n], nil
  if not pcall(check.callable, "", "fn", fn) then
    return -- misuse
  end
  args[args.n] = function(lock)
    local outcome = choose_grant(call, lock)
    if outcome and outcome ~= "lost" then
      refused = outcome
      return
    end
    return call_and_lose(fn, lock, outcome)
  end
  return function()
    return refused and fail(call, refused)
  end
end

-- client:once(name, period, opts, fn). "lost" is a loss at the end of the function.
local function run_once(call, _, args)
  local fn, opts = args[args.n], args[3]
  if not pcall(check.callable, "", "fn", fn) then
    return -- misuse
  end
  local is_try = type(opts) == "table" and opts.timeout == 0
  local outcome = choose(call, { "lost", "unavailable", is_try and "locked" or "timeout" })
  if outcome and outcome ~= "lost" then
    return nil, fail(call, outcome)
  end
  args[args.n] = function(lock)
    return call_and_lose(fn, lock, outcome)
  end
end

-- A call that starts a wait and returns at once.
local function start(call)
  return nil, choose(call, { "unavailable" }) and fail(call, "unavailable")
end

-- observer:next(timeout)
local function next_change(call, _, args)
  local outcome = choose(call, { "unavailable", args[1] and "timeout" })
  return nil, outcome and fail(call, outcome)
end

-- lock:unlock() and the like. A release that fails with "unavailable" goes on.
local function release(call, lock)
  local is_last = lock:count() == 1
  local outcome = lock:_left() and choose(call, { "lost", is_last and "unavailable" or nil })
  if outcome == "lost" then
    M.end_hold(lock, "expired")
  end
  return function(results)
    return outcome == "unavailable" and results[1] and fail(call, outcome)
  end
end

-- Makes the next transaction of `client` fail with "unavailable": before it is sent, or after etcd
-- has applied it.
local function lose_answer(client, call, is_applied)
  function client:_run_txn(...)
    client._run_txn = nil
    local results = is_applied and pack(client._run_txn(self, ...))
    if results and not (results[1] and results[2]) then
      return unpack_list(results, 1, results.n) -- etcd has not applied it
    end
    return false, unpack_list(fail(call, "unavailable"), 2, 3)
  end
end

-- Returns the kind of the calls that send a request, or ask for the state of a hold.
local function request(...)
  local outcomes = { ... }
  return function(call, self)
    local client = self._client or self
    local outcome = (not self._left or self:_left()) and choose(call, outcomes)
    if outcome == "lost" then
      M.end_hold(self, "expired")
    elseif outcome then
      lose_answer(client, call, outcome == "applied")
    end
    return function()
      client._run_txn = nil
    end
  end
end

-- Replaces the methods of `class` whose names are in `methods`: they become calls of the kind.
local function intercept(class, noun, kind, methods)
  for name in methods:gmatch "%S+" do
    local method = class[name]
    local function make(self, call, ...)
      local args = pack(...)
      local after, results = kind(call, self, args)
      results = results or pack(method(self, unpack_list(args, 1, args.n)))
      results = after and after(results) or results
      return unpack_list(results, 1, results.n)
    end
    class[name] = function(self, ...)
      local client = type(self) == "table" and (self._client or self)
      if client and not M.others[client] then
        program[client] = true
        if plan and not inside[coroutines.running() or MAIN] then
          local call = { name = noun .. ":" .. name, place = find_place() }
          local results = call_inside(true, make, self, call, ...)
          return unpack_list(results, 1, results.n)
        end
      end
      return method(self, ...)
    end
  end
end

for _, name in ipairs { "lock", "read_lock", "write_lock", "multi_lock" } do
  intercept(Client, "client", take, name .. " try_" .. name)
  intercept(Client, "client", take_with, "with_" .. name)
  intercept(Client, "client", start, name .. "_async")
end
-- The function that client:wrap returns calls with_lock, which may fail in a test.
local wrap = Client.wrap
function Client:wrap(name, ...)
  wrap(self, name, ...) -- checks the arguments
  local opts, fn = ...
  if fn == nil then
    opts, fn = nil, opts
  end
  return function(...)
    local args = pack(...)
    return self:with_lock(name, opts, function()
      return fn(unpack_list(args, 1, args.n))
    end)
  end
end

intercept(Client, "client", run_once, "once")
intercept(Client, "client", request "unavailable", "ping queue queues runs get")
intercept(Client, "client", request("unavailable", "applied"), "break_lock")
intercept(Semaphore, "semaphore", take, "lock try_lock")
intercept(Semaphore, "semaphore", take_with, "with_lock")
intercept(Semaphore, "semaphore", start, "lock_async")
intercept(Semaphore, "semaphore", request "unavailable", "available")
intercept(Election, "election", take, "campaign try_campaign")
intercept(Election, "election", take_with, "with_leadership")
intercept(Election, "election", start, "campaign_async")
intercept(Election, "election", request "unavailable", "leader")
intercept(Observer, "observer", next_change, "next")
intercept(Lock, "lock", release, "unlock resign")
intercept(Lock, "lock", request "lost", "held remaining expire wait_lost")
local read = request("lost", "unavailable")
local write = request("lost", "unavailable", "applied")
intercept(Lock, "lock", read, "check get")
intercept(Lock, "lock", write, "put delete proclaim downgrade")
intercept(Lock, "lock", function(call, self, args)
  local list, kind = args[1], read
  for i = 1, type(list) == "table" and #list or 0 do
    kind = type(list[i]) == "table" and list[i][1] ~= "get" and write or kind
  end
  return kind(call, self)
end, "txn")

-- ---- runs ----

--- As pcall, but returns the packed results, and `fn` may yield.
function M.attempt(fn, ...)
  return pack(coroutines.pcall(fn, ...))
end

--- Calls fn(), and returns the packed results of pcall. new_plan(call) returns the outcome of each
-- call of the program in it; nil, false, or an outcome that this call cannot have, means that the
-- call does what it always does. `where` names the caller in messages. A call is a table with these
-- fields:
--   name      such as "lock:put"
--   place     of the line that makes the call: "FILE:LINE"
--   outcomes  list of the outcomes that it can have
function M.run(where, fn, new_plan)
  check.callable(where, "fn", fn)
  if plan then
    check.raise(where .. ": another function of etcdlock.testing makes calls fail already")
  end
  plan = new_plan
  local results = M.attempt(fn)
  plan = nil
  return results
end

return M
