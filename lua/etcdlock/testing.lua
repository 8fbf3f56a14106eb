--- Help for tests of programs that use etcdlock: an etcd for the tests, clients that count as other
-- processes, losses, outages, and each failure of each call in turn. Only tests load this module.
--
-- The *program* is the code under test. Its clients are all clients except those of
-- `testing.connect`.
-- @module etcdlock.testing
local calls = require "etcdlock.testing.calls"
local check = require "etcdlock.check"
local connect_options = require "etcdlock.connect_options"
local core = require "etcdlock.core"
local etcdlock = require "etcdlock"
local quote = require("etcdlock.text").quote

local M = {}

local unpack_list = table.unpack or unpack -- luacheck: ignore unpack

-- ---- the etcd of the tests ----

-- Shell commands that start an etcd in the directory `%s`. When this process, which is $PPID, has
-- ended, they kill the etcd and remove the directory. etcd listens at unix sockets there, so it
-- needs no port.
local START_ETCD = [[cd '%s' && { trap '' INT
etcd --name test --data-dir data --initial-cluster test=unix://localhost:2 \
  --listen-client-urls unix://localhost:1 --advertise-client-urls unix://localhost:1 \
  --listen-peer-urls unix://localhost:2 --initial-advertise-peer-urls unix://localhost:2 \
  --heartbeat-interval 10 --election-timeout 100 --unsafe-no-fsync --logger zap \
  --log-level error >log 2>&1 &
echo $! >pid
while kill -0 $PPID && test -e pid; do sleep 0.3; done
kill -9 $!; cd /; rm -rf '%s'; } </dev/null >/dev/null 2>&1 &]]

local STOP_ETCD = "kill -9 $(cat '%s/pid'); rm -rf '%s'"

-- Shell command that sends a signal to the etcd in a directory, and waits until no thread of that
-- etcd is in one of the given states.
local SIGNAL_ETCD = [[cd '%s' && pid=$(cat pid) && kill -%s $pid &&
while grep -q '^State:.[%s]' /proc/$pid/task/*/status; do :; done]]

local directory -- of the private etcd; nil: there is no such etcd
local defaults -- options that etcdlock.connect uses as defaults; nil: M.start was not called
-- A client and a lock that it holds. M.eventually pauses by waiting for the loss of this lock with
-- a timeout, because that works in every event loop. nil until the first use.
local pauses, pause_lock

local connect = etcdlock.connect

local function merge(options, more)
  local merged = {}
  for _, list in ipairs { options, more or {} } do
    for field, value in pairs(list) do
      merged[field] = value
    end
  end
  return merged
end

function etcdlock.connect(opts)
  local is_options = opts == nil or type(opts) == "table" and opts ~= etcdlock
  if defaults and is_options and not (opts and opts.endpoints) then
    opts = merge(defaults, opts)
  end
  return connect(opts)
end

local function read_line(file)
  local line = file and file:read "*l"
  if file then
    file:close()
  end
  return line
end

-- Returns true if etcd answers at `endpoint` within 5 s; otherwise nil, message, code.
local function ping(endpoint)
  local client, message, code = connect { endpoints = endpoint, env = false, loop = "none" }
  if not client then
    return nil, message, code
  end
  local seconds
  seconds, message, code = client:ping()
  client:close()
  return seconds and true, message, code
end

-- Returns the endpoint of the private etcd, which the first call starts; or nil, message, code.
local function start_etcd()
  local path = directory or read_line(io.popen "command -v etcd >/dev/null && mktemp -d")
  if not path then
    return nil, "testing.start: no etcd in PATH; install etcd, or give the option endpoints",
      "unavailable"
  end
  local endpoint = "unix:" .. path .. "/localhost:1"
  if directory then
    return endpoint
  end
  directory = path
  os.execute(START_ETCD:format(path, path))
  local ok, message, code = ping(endpoint)
  if ok then
    return endpoint
  end
  message = read_line(io.open(path .. "/log")) or message
  M.stop()
  return nil, "testing.start: etcd has not started: " .. message, code
end

-- The default log function. Tests lose locks on purpose, so only leaked locks are reported.
local function report_leak(event)
  if event.event == "leaked" then
    io.stderr:write(tostring(event), "\n")
  end
end

--- Starts an etcd for the tests of this process, or uses the one at the option `endpoints`. From
-- then on `opts`, with the address, are the defaults of `etcdlock.connect`. So the program uses
-- this etcd, too, unless it names endpoints. Call `start` before the program connects. Without the
-- option `log`, leaked locks are reported on standard error, and lost locks are not.
--
-- The private etcd is the program `etcd` in `PATH`. Later calls start no second one. It ends, and
-- its data are removed, by `testing.stop`, or when the process ends.
-- @tparam[opt] connect_options opts
-- @treturn string address of etcd, for other processes
-- @fail unavailable, nomem, forked: `unavailable` if etcd cannot be started
function M.start(opts)
  opts = check.options("testing.start", opts, connect_options.OPTIONS, {})
  local endpoints, message, code = opts.endpoints, nil, nil
  if not endpoints then
    endpoints, message, code = start_etcd()
  end
  if not endpoints then
    return nil, message, code
  end
  defaults = merge({
    endpoints = endpoints, env = opts.endpoints ~= nil, log = report_leak,
  }, opts)
  return type(endpoints) == "table" and table.concat(endpoints, ",") or endpoints
end

--- Ends the private etcd, and the effect of `testing.start`. First close the clients that use it.
-- @treturn true
-- @fail never
function M.stop()
  if pauses then
    pauses:close()
  end
  if directory then
    os.execute(STOP_ETCD:format(directory, directory))
  end
  directory, defaults, pauses, pause_lock = nil, nil, nil, nil
  return true
end

local function signal_etcd(where, signal, states)
  if not directory then
    check.raise(where .. ": there is no private etcd; call testing.start without endpoints first")
  end
  os.execute(SIGNAL_ETCD:format(directory, signal, states))
  return true
end

local PAUSES_TTL = 300 -- seconds, longer than any M.pause

local function take_pause_lock()
  if not pause_lock then
    pauses = assert(M.connect { ttl = PAUSES_TTL })
    pause_lock = assert(pauses:lock(tostring(M), { owner = M }))
  end
  return pause_lock
end

--- Makes the private etcd stand still until `testing.resume`. Call `resume` in `after_each`:
-- otherwise, if this test raises an error, etcd stands still in the next one, too. Calls take as
-- long as in any outage, `lock:put` 5 s for example. `testing.outage` takes no time.
-- @treturn true
-- @fail never
-- @raise if there is no private etcd
function M.pause()
  if directory then
    take_pause_lock() -- M.eventually may need it before M.resume
  end
  return signal_etcd("testing.pause", "STOP", "^T")
end

--- Ends the effect of `testing.pause`.
-- @treturn true
-- @fail never
-- @raise if there is no private etcd
function M.resume()
  return signal_etcd("testing.resume", "CONT", "T")
end

-- ---- other processes ----

--- Creates a client that counts as a client of another process. A call of the program that asks for
-- a lock of this client waits, and does not fail with `deadlock`. Of the functions of this module,
-- only `pause` and `stop` affect calls of this client. Starts etcd if `testing.start` was not
-- called.
-- @tparam[opt] connect_options opts as for `etcdlock.connect`
-- @treturn client
-- @fail as etcdlock.connect, etcdlock.testing.start
function M.connect(opts)
  local client, message, code = true, nil, nil
  if not defaults then
    client, message, code = M.start()
  end
  if client then
    client, message, code = etcdlock.connect(opts)
  end
  if not client then
    return nil, message, code
  end
  calls.others[client] = true
  client._held_locks._members = {} -- see is_same_etcd in held_locks.lua
  return client
end

-- Seconds between two calls of the condition of M.eventually.
local PAUSE = 0.005

--- Calls `condition` every 5 ms until it returns a true value, and returns that value. In an event
-- loop only the coroutine waits.
-- @tparam function condition
-- @tparam[opt=5] seconds seconds time to wait; 5 if left out
-- @treturn value
-- @fail timeout
-- @raise an error of `condition`
function M.eventually(condition, seconds)
  check.callable("testing.eventually", "condition", condition)
  check.seconds("testing.eventually", "seconds", seconds)
  seconds = seconds or 5
  local lock, ends = take_pause_lock(), core.now() + seconds
  local value = condition()
  while not value and core.now() < ends do
    lock:wait_lost(PAUSE)
    value = condition()
  end
  if value then
    return value
  end
  return nil, string.format("testing.eventually: not within %g s", seconds), "timeout"
end

-- ---- losses and failures ----

-- Raises unless `value` is a key of `words`.
local function check_word(where, field, value, words)
  if words[value] == nil then
    check.raise_type(where, field, value, table.concat(check.sorted_keys(words), ", "))
  end
end

--- Makes the program lose all its holds of `name` now. When the call returns, `held` of these locks
-- returns false, the `on_lost` functions have run, and the keys of these holds are in no queue any
-- more.
--
-- For `deleted`, `replaced` and `max_hold`, etcd and the client do what the reason says. For the
-- other reasons, the key is deleted and the lock reports the reason; the option `log` reports
-- `deleted`.
-- @tparam string name without the prefix of the program's client
-- @tparam[opt=expired] reason reason `expired` if left out
-- @treturn true
-- @fail not_held: if the program does not hold the name
-- @raise for an unknown reason
function M.lose(name, reason)
  reason = reason or "expired"
  check.string("testing.lose", "name", name)
  check_word("testing.lose", "reason", reason, calls.REASONS)
  local is_found = false
  for lock in pairs(calls.find_holds()) do
    for _, held_name in ipairs(lock:names()) do
      if held_name == name and lock:_left() then
        calls.end_hold(lock, reason)
        is_found = true
      end
    end
  end
  if is_found then
    return true
  end
  return nil, string.format("testing.lose: the program does not hold lock %s", quote(name)),
    "not_held"
end

-- `results` is the result of calls.run. Returns the results of the function that it has run, or
-- raises the error of that function again.
local function pass_on(results)
  if not results[1] then
    error(results[2], 0)
  end
  return unpack_list(results, 2, results.n)
end

--- The ways in which `testing.fail` and `testing.each_failure` make a call of the program end.
-- @table outcome
-- @field timeout the lock was not free within the `timeout` of the call; for an observer: no change
-- @field lost the hold is lost before the call; for a `with_lock` or `once`: at the end of its
--   function. Later calls under this hold fail, too. For a call that waits for a lock: the waiter's
--   key is deleted
-- @field unavailable etcd does not answer, and has not got the request. For `unlock`: etcd has not
--   confirmed the release, which goes on
-- @field applied etcd has applied the write, but its answer is lost: the call fails with
--   `unavailable`, the code of an unknown outcome
-- @field locked a try found that the lock is taken

--- Calls `fn`, and makes the `nth` call of `call` in it end with `outcome`. All other calls do what
-- they always do.
-- @tparam string call a [call that may fail](testing_your_code.md#5-one-failure), such as
--   `lock:put`
-- @tparam outcome outcome
-- @tparam function fn
-- @tparam[opt=1] count nth which of these calls; 1 if left out
-- @treturn any results of `fn`
-- @fail never
-- @raise an error of `fn`; if `fn` makes fewer such calls, or the call cannot end so
function M.fail(call, outcome, fn, nth)
  check.string("testing.fail", "call", call)
  check_word("testing.fail", "outcome", outcome, calls.CODES)
  nth = nth == nil and 1 or nth
  if type(nth) ~= "number" or nth % 1 ~= 0 or nth < 1 then
    check.raise_type("testing.fail", "nth", nth, "a whole number from 1 on")
  end
  local made, number = nil, 0
  local results = calls.run("testing.fail", fn, function(this)
    number = number + (this.name == call and 1 or 0)
    if this.name == call and number == nth then
      made = this
      return outcome
    end
  end)
  local possible = made and " " .. table.concat(made.outcomes, " ") .. " "
  if results[1] and not made then
    local text = "testing.fail: the function makes no call %s that could fail"
    if number > 0 then
      text = "testing.fail: the function makes %s %d time%s, and number %d was to fail"
    end
    check.raise(text:format(call, number, number == 1 and "" or "s", nth))
  elseif results[1] and not possible:find(" " .. outcome .. " ", 1, true) then
    check.raise(string.format("testing.fail: this %s cannot end with %s, only with%s", call,
      outcome, possible))
  end
  return pass_on(results)
end

--- Calls `fn`. All [calls in it that may fail](testing_your_code.md#5-one-failure) with
-- `unavailable` fail with it at once, as in an outage that is shorter than the TTL: the program
-- keeps its holds, and no write is applied. Exception: if a lock is taken, the call for it waits
-- for the lock first, as without an outage.
-- @tparam function fn
-- @treturn any results of `fn`
-- @fail never
-- @raise an error of `fn`
function M.outage(fn)
  return pass_on(calls.run("testing.outage", fn, function()
    return "unavailable"
  end))
end

-- Unlocks the locks that are held now and were not held `before`. Returns words for one of them;
-- nil if there are none.
local function release_left(before)
  local words
  for lock in pairs(calls.find_holds()) do
    if not before[lock] and lock:count() > 0 then
      words = calls.describe_hold(lock)
      while lock:count() > 0 do
        lock:unlock()
      end
    end
  end
  return words
end

-- Runs `fn` with a plan (see calls.run). Returns why the data are not right afterwards, or which
-- lock is left held; nil if neither.
local function try(fn, is_right, plan)
  local before = calls.find_holds()
  local results = calls.run("testing.each_failure", fn, plan)
  local verdict = calls.attempt(is_right, unpack_list(results, 1, results.n))
  local left = release_left(before)
  local ok, right, why = unpack_list(verdict, 1, 3)
  if not ok then
    why = right
  elseif right or right == nil and why == nil then
    return left
  end
  return (tostring(why == nil and "the data are wrong" or why):gsub("%s*\n%s*", " "))
end

--- Calls `fn` once without a failure. Then calls `fn` once for each [outcome](#testing) of each
-- call that may fail: first for each outcome of the first call, then for those of the second, and
-- so on. After each run, `is_right` tells whether the data are right.
--
-- `is_right` gets the results of `fn` as `pcall` returns them: true and the results, or false and
-- the error. If the data are wrong, or are not what `fn` has returned, `is_right` must raise an
-- error, return false, or return nil and a message. A lock that is still held afterwards is a
-- fault, too: `fn` has forgotten it, perhaps on the path of a failure. It is unlocked before the
-- next run.
--
-- `fn` first brings the data into their initial state, by a client of `testing.connect`, whose
-- calls do not fail. `fn` must make the same calls in each run, up to the one that fails.
-- @tparam function fn
-- @tparam function is_right
-- @treturn count number of runs with a failure
-- @fail text a report: the fault of the run without a failure; otherwise a line for each failure
--   after which there is a fault, such as `shop.lua:12: lock:put ended with "unavailable", although
--   etcd has applied it: …`
function M.each_failure(fn, is_right)
  check.callable("testing.each_failure", "is_right", is_right)
  local made, count, faults = {}, 0, {}
  local fault = try(fn, is_right, function(call)
    made[#made + 1] = call
  end)
  if fault or not made[1] then
    return nil, "testing.each_failure: without a failure: "
      .. (fault or "fn makes no call of a client that could fail")
  end
  for i, call in ipairs(made) do
    for _, outcome in ipairs(call.outcomes) do
      local number = 0
      fault = try(fn, is_right, function()
        number = number + 1
        return number == i and outcome
      end)
      count = count + 1
      if fault then
        faults[#faults + 1] = string.format('%s: %s ended with "%s"%s: %s', call.place, call.name,
          calls.CODES[outcome],
          outcome == "applied" and ", although etcd has applied it" or "", fault)
      end
    end
  end
  if faults[1] then
    return nil, table.concat(faults, "\n")
  end
  return count
end

return M
