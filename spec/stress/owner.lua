-- One owner of a client. It acquires, uses and releases locks at random, one after the other.

local clients = require "spec.stress.clients"
local counters = require "spec.stress.counters"
local history = require "spec.stress.history"
local holds = require "spec.stress.holds"
local loop = require "spec.stress.loop"
local plan = require "spec.stress.plan"
local waits = require "spec.stress.waits"
local faults = require "spec.stress.faults"

local M = {}

local UNLOCK_MAX = 2 -- seconds for which unlock waits for etcd

local random, is_ending

-- Makes all owners draw from |source|, and end when has_ended() is true.
function M.use(source, has_ended)
  random, is_ending = source, has_ended
end

-- ---- what to ask for -----------------------------------------------------------------

local MODES = {
  { 30, "lock" }, { 22, "read" }, { 20, "write" }, { 10, "permit" }, { 10, "multi" },
  { 8, "leader" },
}
local FORMS = { { 60, "async" }, { 15, "wait" }, { 10, "with" }, { 15, "try" } }
local PERMITS = {}
for name in pairs(plan.PERMITS) do PERMITS[#PERMITS + 1] = name end
table.sort(PERMITS)

local function names_for(mode)
  if mode == "permit" then return { random:pick(PERMITS) } end
  if mode == "leader" then
    return { random:chance(0.5) and plan.ELECTION or random:pick(plan.LOCKS) }
  end
  local first = random:whole(1, #plan.LOCKS)
  local names = { plan.LOCKS[first] }
  if mode == "multi" then
    names[2] = plan.LOCKS[first % #plan.LOCKS + 1]
    if random:chance(0.3) then names[3] = plan.LOCKS[(first + 1) % #plan.LOCKS + 1] end
  end
  return names
end

local function timeout_for(form)
  if form == "try" then return nil end
  return random:weighted {
    { form == "async" and 15 or 0, 0 }, { 30, random:real(0.02, 1) }, { 30, random:real(1, 5) },
    { 15, random:real(5, plan.WAIT_MAX) },
    { form == "async" and 10 or 0, false },
  } or nil
end

-- Returns the options of an acquisition, and records in |asked| what the checks need.
local function options_for(asked)
  local opts = {
    owner = asked.owner, timeout = asked.timeout,
    value = ("@%s@"):format(asked.client.id),
  }
  local may_linger = asked.mode == "lock" or asked.mode == "read" or asked.mode == "write"
  if may_linger and not asked.client.has_lock_delay and random:chance(0.35) then
    opts.linger = 10 ^ random:real(-3, 3)
  end
  if random:chance(0.12) then
    opts.max_hold = random:real(0.05, 1)
    asked.max_hold = opts.max_hold
  end
  return opts
end

local function new_acquisition(client, owner)
  local mode, form = random:weighted(MODES), random:weighted(FORMS)
  local asked = {
    client = client, owner = owner, mode = mode, form = form,
    names = names_for(mode), timeout = timeout_for(form),
    was_reached = client.was_reached,
  }
  asked.is_try = form == "try" or asked.timeout == 0
  return asked
end

-- ---- acquiring --------------------------------------------------------------------------

-- Waits for |pending|; in some cases cancels or drops it meanwhile. Returns the lock, or nil,
-- message and code. If |pending| was dropped, returns only nil and sets asked.is_dropped.
local function poll(asked, pending)
  local is_endless = not asked.timeout
  local gives_up = is_endless or random:chance(0.2)
  local limit = gives_up and loop.now() + random:weighted {
    { 40, random:real(0, 0.1) }, { 40, random:real(0.1, 1.5) },
    { 20, random:real(1.5, plan.WAIT_MAX) },
  }
  local function is_ready()
    return is_endless and is_ending() or pending:dirty()
  end
  while true do
    local ready = loop.await(is_ready, limit)
    if ready and not (is_endless and is_ending()) then
      local lock, message, code = pending:step()
      if lock ~= false then return lock, message, code end
    elseif random:chance(0.25) and not is_ending() then
      history.count "dropped waits"
      asked.is_dropped = true
      return nil
    else
      history.count "aborts"
      asked.is_cancelled = true
      pending:cancel()
      return pending:step()
    end
  end
end

local function acquire(asked, opts)
  local client = asked.client
  if asked.form ~= "async" then return client:acquire(asked.form, asked.mode, asked.names, opts) end
  local pending, message, code = client:acquire("async", asked.mode, asked.names, opts)
  if not pending then return nil, message, code end
  return poll(asked, pending)
end

-- ---- within a hold -----------------------------------------------------------------------

local function pause()
  loop.sleep(random:weighted {
    { 70, random:real(0, 0.02) }, { 25, random:real(0.02, 0.2) }, { 5, random:real(0.2, 1.5) },
  })
end

-- Acquires the lock of |hold| once more, for the same owner.
local function reenter(hold, lock)
  local client, name = hold.client, hold.names[1]
  local mode = hold.mode
  if mode ~= "lock" and mode ~= "write" and mode ~= "read" then return end
  local asks_to_write = mode == "read" and random:chance(0.5)
  local before = lock:count()
  local again, message, code = client:acquire("wait", asks_to_write and "write" or mode, { name },
    { owner = hold.owner, timeout = 0 })
  if not lock:held() then
    if again and again ~= lock then again:unlock() end -- the hold was lost, and this is a new one
  elseif asks_to_write then
    if code ~= "deadlock" then
      history.violation(name, "%s asks to write and is told %s (%s)", holds.describe(hold),
        tostring(code or again), tostring(message))
      if again then again:unlock() end
    end
  elseif again ~= lock or lock:count() ~= before + 1 then
    history.violation(name, "%s asks again and gets %s (%s)", holds.describe(hold),
      tostring(again), tostring(message))
  else
    local ok, why, why_code = lock:unlock()
    if not ok and lock:held() then
      history.violation(name, "%s: inner unlock answers %s (%s)", holds.describe(hold),
        tostring(why_code), tostring(why))
    end
  end
end

-- Calls the method |name| of |lock| with |argument|, and checks its failure. Returns true if it
-- succeeds.
local function call(hold, lock, name, argument)
  local ok, message, code = lock[name](lock, argument)
  if not ok then counters.check_failure(hold, name, message, code) end
  return ok
end

local function watch(hold, lock) counters.watch(hold, lock, hold.names[1], pause) end

local function downgrade(hold, lock)
  holds.downgrade(hold)
  call(hold, lock, "downgrade")
  history.count "downgrades"
end

local function confirm(hold, lock) call(hold, lock, "check") end

local function proclaim(hold, lock)
  call(hold, lock, "proclaim", ("@%s@ %d"):format(hold.client.id, random:whole(1, 9)))
end

local function expire(hold, lock)
  local seconds = random:real(0.02, 0.5)
  if call(hold, lock, "expire", seconds) then
    hold.max_hold = loop.now() - hold.began + seconds
    holds.note(hold, "expires in %.3f s", seconds)
  end
end

local function act(hold, lock)
  local is_writer = hold.mode ~= "read" and hold.mode ~= "permit"
  local action = random:weighted {
    { 40, pause }, { is_writer and 35 or 0, counters.increment },
    { hold.mode ~= "permit" and 15 or 0, watch }, { hold.mode == "write" and 15 or 0, downgrade },
    { 5, confirm }, { 8, reenter }, { hold.mode == "leader" and 10 or 0, proclaim }, { 3, expire },
  }
  action(hold, lock)
end

-- Carries out up to three actions with |lock|, and perhaps waits until the hold has ended.
local function act_some_times(hold, lock)
  for _ = 1, random:whole(0, 3) do
    if not lock:held() or is_ending() or hold.client:isolation() > 0 then break end
    act(hold, lock)
  end
  if hold.max_hold and random:chance(0.3) then
    loop.sleep(math.max(0, hold.began + hold.max_hold - loop.now()) + 0.02)
  end
  if hold.client:isolation() > 0 and random:chance(0.8) then
    -- Other clients get the lock when the lease has expired. Before then this client must know that
    -- its hold is lost.
    holds.note(hold, "keeps it while its client is isolated")
    loop.sleep(hold.client:isolation() + 1)
  end
end

-- ---- releasing -----------------------------------------------------------------------------

-- Returns why `unlock` should not have returned |code|. Returns nil if |code| is in order.
local function objection(hold, was_lost, ok, code)
  if ok then
    return was_lost and "the hold was lost before" or nil
  elseif code == "lost" then
    if was_lost then return nil end
    for _, name in ipairs(hold.names) do
      if faults.loss_cause(hold.client, name, hold.max_hold and "max_hold" or nil, hold)
        or faults.loss_cause(hold.client, name, nil, hold) then
        return nil
      end
    end
    return "nobody has taken it"
  elseif code == "closed" then
    return not hold.client.is_closed and "the client is open" or nil
  elseif code == "unavailable" then
    return nil
  end
  return "it is not documented for that, or has no cause here"
end

local function unlock(hold, lock)
  local was_lost = not lock:held()
  local from, stalled = loop.now(), loop.stalled()
  holds.remove(hold, "unlocks", was_lost)
  local release = hold.granted_mode == "leader" and lock.resign or lock.unlock
  local ok, message, code = release(lock)
  local took = loop.now() - from - (loop.stalled() - stalled)
  history.count(ok and "unlocked" or "unlock " .. tostring(code))
  if not ok then holds.note(hold, "unlock: %s (%s)", tostring(code), tostring(message)) end
  local why = objection(hold, was_lost, ok, code)
    or took > UNLOCK_MAX + plan.SLACK and ("it took %.1f s"):format(took)
  if why then
    history.violation(hold.names[1], "%s: unlock answers %s (%s): %s", holds.describe(hold),
      tostring(ok or code), tostring(message), why)
  end
end

-- Uses |lock|, and then unlocks or drops it.
local function use(hold, lock)
  act_some_times(hold, lock)
  if random:chance(0.08) and not is_ending() and lock:held() then
    history.count "dropped holds"
    return holds.note(hold, "is dropped")
  end
  unlock(hold, lock)
end

-- ---- the owner --------------------------------------------------------------------------------

-- Records that |asked| has ended with |lock|, and returns the new hold.
local function begin_hold(asked, lock)
  waits.finish(asked, lock)
  local hold = {
    names = asked.names, mode = asked.mode, client = asked.client, owner = asked.owner,
    token = lock:token(), lease = lock:lease(), max_hold = asked.max_hold, lock = lock,
    asked = asked.began,
  }
  holds.add(hold)
  return hold
end

-- Checks the results of a with_lock whose function has run and has returned "done".
local function check_with(hold, was_lost, ok, message, code, has_run, result)
  history.count(ok and "unlocked" or "with " .. tostring(code))
  if ok then
    has_run, result, message = true, message, nil
  else
    holds.note(hold, "with_lock: %s (%s)", tostring(code), tostring(message))
  end
  local why = objection(hold, was_lost, ok, code)
    or (has_run ~= true or result ~= "done") and "the function has run"
    or code == "unavailable" and "the function has run under the lock" or nil
  if why then
    history.violation(hold.names[1], "%s: with_lock answers %s (%s): %s", holds.describe(hold),
      tostring(ok or code), tostring(message), why)
  end
end

-- Acquires, uses and releases a lock once, by with_lock.
local function cycle_within(asked, opts)
  local hold, was_lost
  local function run(lock)
    hold = begin_hold(asked, lock)
    act_some_times(hold, lock)
    was_lost = not lock:held()
    holds.remove(hold, "ends its function", was_lost)
    return "done"
  end
  local ok, message, code, has_run, result =
    asked.client:acquire("with", asked.mode, asked.names, opts, run)
  if hold then
    check_with(hold, was_lost, ok, message, code, has_run, result)
  else
    waits.finish(asked, nil, message, code)
  end
end

-- Acquires, uses and releases or drops a lock once. When it returns, no reference to the lock is
-- left.
local function cycle(client, owner)
  local asked = new_acquisition(client, owner)
  local opts = options_for(asked)
  waits.begin(asked)
  if asked.form == "with" then return cycle_within(asked, opts) end
  local lock, message, code = acquire(asked, opts)
  if asked.is_dropped then
    waits.drop(asked)
  elseif lock then
    use(begin_hold(asked, lock), lock)
  else
    waits.finish(asked, nil, message, code)
  end
end

-- The number of owners that have not ended.
M.running = 0

-- Starts the owner |number| of the client of the place |i|.
function M.start(i, number)
  M.running = M.running + 1
  local round = 0
  loop.spawn(function()
    while not is_ending() do
      round = round + 1
      local client = clients.list[i]
      -- An owner that has dropped a lock may get the same hold again. So each round has a new
      -- owner.
      local owner = ("%s/%d.%d"):format(client.id, number, round)
      local ok, failure = xpcall(cycle, debug.traceback, client, owner)
      if not ok then history.violation("*", "%s: error %s", owner, tostring(failure)) end
      loop.sleep(random:real(0, 0.1))
    end
    M.running = M.running - 1
  end)
end

return M
