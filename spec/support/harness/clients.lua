-- Connects the clients of a test, and checks the results of their calls.

local Scripted = require "spec.support.servers.scripted"
local assert = require "luassert"
local etcdlock = require "etcdlock"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local M = {}

-- Seconds. If a hold is shorter, the client does not watch its key.
M.UNWATCHED = 0.05

-- The open clients, the locks of keep, and the scripted servers.
local open, kept, servers = {}, {}, {}

-- If an option has this value, connect leaves the option out, even if it has a default here.
M.NONE = {}

-- Returns a copy of |defaults| with |changes|; a change to NONE removes the option.
function M.with(defaults, changes)
  local opts = {}
  for name, value in pairs(defaults) do opts[name] = value end
  for name, value in pairs(changes or {}) do
    if value == M.NONE then value = nil end
    opts[name] = value
  end
  return opts
end

-- Returns the function connect(changes), which connects a client with the options |defaults| (a
-- table, or a function that returns one) and |changes|. close_all closes these clients. Without
-- |endpoints| it is a client of the suite's etcd, without |prefix| its keys are those of the spec
-- file, and without |ttl| its lease lives longer than a busy machine may stand still. With
-- |changes.elsewhere| the client counts as a client of another process: deadlock detection ignores
-- it.
function M.connector(defaults)
  return function(changes)
    local opts = M.with({ ttl = wait.ttl(30), prefix = suite.prefix() },
      type(defaults) == "function" and defaults() or defaults)
    if opts.endpoints == nil and (changes or {}).endpoints == nil then
      opts.endpoints = suite.endpoints()
    end
    opts = M.with(opts, changes)
    local is_elsewhere = opts.elsewhere
    opts.elsewhere = nil
    local client = assert(etcdlock.connect(opts))
    if is_elsewhere then client._held_locks._members = {} end
    open[#open + 1] = client
    return client
  end
end

-- Returns |lock| and keeps a reference to it until close_all, so that it is not garbage-collected
-- and released.
function M.keep(lock)
  kept[#kept + 1] = lock
  return lock
end

-- Calls |call| in a coroutine, which is suspended when the first request of |client| in it has been
-- answered. Returns the function that resumes the coroutine.
function M.ask_and_stop(client, call)
  local ask = client._run_txn
  function client:_run_txn(...)
    local answer = { ask(self, ...) }
    client._run_txn = nil
    coroutine.yield()
    return (table.unpack or unpack)(answer, 1, 4)
  end
  local go_on = coroutine.wrap(call)
  go_on()
  assert.equal(ask, client._run_txn)
  return go_on
end

-- Starts a guarded write of |value| to |key| by |lock| of |client|, with a timeout of |seconds|.
-- Returns the write, whose method wait returns its result.
function M.start_put(client, lock, key, value, seconds)
  local write = client._core:txn()
  write:guard_lock(lock._core)
  write:put(key, value)
  assert.is_true(write:start(seconds))
  return write
end

-- Waits for |write| of start_put. Fails unless it ends with "unavailable" and etcd may have carried
-- it out.
function M.assert_unheard(write)
  local ok, message, code, is_unwritten = write:wait(10)
  assert.is_false(ok)
  assert.equal("unavailable", code, message)
  assert.is_false(is_unwritten, message)
end

-- Waits until |client| watches the key of |lock|, the only lock that it holds, and has sent the
-- requests that follow the creation of the watch. For the next seconds |client| then sends no
-- request by itself.
function M.await_watched(client, lock)
  local seen
  wait.eventually(function() return client:stats().watches > 0 end, 5, "the client watches its key")
  wait.eventually(function()
    local before = seen
    for _ = 1, 5 do assert(client:ping()) end
    local stats = client:stats()
    seen = stats.watches + stats.looks
    return seen == before
  end, 5, "the client queries the watched key")
  assert.is_true(lock:check())
end

-- Waits until |server|, of scripted.lua, holds back etcd's answer to a transaction of |client|.
-- Then pings, because |client| abandons the transaction if it receives no answer at all for a
-- while.
function M.await_held(server, client)
  wait.eventually(function() return server:held "Txn" == 1 end, 5, "the server holds an answer")
  assert(client:ping())
end

-- Repeats |run|, which takes and releases locks, until it ends in less than UNWATCHED seconds, so
-- that no key was watched. Returns the result of that run.
function M.briefly(run)
  local result
  wait.eventually(function()
    local from = wait.now()
    result = run()
    return wait.now() - from < M.UNWATCHED
  end, 5, "a hold that is too short for a watch")
  return result
end

-- Starts an asynchronous acquisition of the lock |name| in |mode| ("read", "write") by |client|,
-- for a new owner unless |opts| name one. Returns the acquisition.
function M.ask(client, mode, name, opts)
  return assert(client[mode .. "_lock_async"](client, name, M.with({ owner = {} }, opts)))
end

-- Fails if one of the acquisitions |...| ends while every open client pings etcd five times. In
-- that time an acquisition at the head of the queue would have ended.
function M.assert_wait(...)
  for _ = 1, 5 do
    for _, client in ipairs(open) do assert(client:ping()) end
  end
  for i, asked in ipairs { ... } do
    assert.is_false(asked:step(), "acquisition " .. i .. " has ended")
  end
end

-- Makes the holder of the lock |name| lose it: |client| breaks the lock.
function M.take_away(client, name)
  assert(client:break_lock(name, client:queue(name)[1].token))
end

-- Waits at most |seconds| (10) for the acquisition |asked| (see ask) and returns its results: a
-- lock, or nil, message, code.
function M.ended(asked, seconds)
  local lock, message, code
  wait.eventually(function()
    lock, message, code = asked:step()
    return lock ~= false
  end, seconds or 10, "the acquisition ends")
  return lock, message, code
end

-- Waits for the acquisition |asked| and returns its lock. Raises if it fails.
function M.granted(asked)
  return assert(M.ended(asked))
end

-- Fails unless one of the two acquisitions |asked| is granted, and the other only after the first
-- lock is released, with a greater token.
function M.assert_one_after_the_other(asked)
  local first
  wait.eventually(function()
    first = first or asked[1]:step() and 1 or asked[2]:step() and 2
    return first
  end, 10, "one of two acquisitions is granted")
  M.assert_wait(asked[3 - first])
  local held = asked[first]:step()
  assert.is_true(held:unlock())
  local next_one = M.granted(asked[3 - first])
  assert.is_true(next_one:token() > held:token())
  assert.is_true(next_one:unlock())
end

-- Returns the list of modes of the present holds of |name|, as |client| reads them from etcd.
function M.modes_held(client, name)
  local modes = {}
  for i, entry in ipairs(assert(client:queue(name))) do
    modes[i] = entry.held and entry.mode or nil
  end
  return modes
end

-- Starts a server of scripted.lua in front of the etcd at |endpoint| (the suite's), with at most
-- |max_streams| streams on a connection (any number), and returns it. close_all stops it after the
-- clients, so that they can revoke their leases.
function M.scripted(endpoint, max_streams)
  servers[#servers + 1] = Scripted.start(endpoint or suite.endpoint(), max_streams)
  return servers[#servers]
end

-- Fails unless |use| leaves no key with |prefix| and no lease in |etcd|. |use| uses and closes a
-- client, and returns the time at which the close began. If the close took 0.5 s or longer, it has
-- given up waiting for etcd's answer, and |use| is repeated.
function M.assert_nothing_left(etcd, prefix, use)
  wait.eventually(function()
    local from = use()
    if wait.now() - from < 0.5 then
      assert.same({}, etcd:keys(prefix))
      assert.same({}, etcd:leases())
      return true
    end
    etcd:revoke_all()
  end, 5, "close ends within 0.5 s")
end

-- Return how many clients and scripted servers are open, for close_clients and stop_servers.
function M.open_clients() return #open end
function M.open_servers() return #servers end

-- Closes the clients except the first |spared| (0).
function M.close_clients(spared)
  kept = {}
  for i = #open, 1 + (spared or 0), -1 do
    open[i]:close()
    open[i] = nil
  end
end

-- Stops the scripted servers except the first |spared| (0).
function M.stop_servers(spared)
  for i = #servers, 1 + (spared or 0), -1 do
    servers[i]:stop()
    servers[i] = nil
  end
end

-- Closes all clients and stops all scripted servers, for a test that goes on after this.
function M.close_all()
  M.close_clients()
  M.stop_servers()
end

-- Fails unless the results of a call are nil, a message and |code|. Returns the message.
function M.assert_fails(code, ok, message, got, ...)
  assert.is_nil(ok)
  assert.equal(code, got, message)
  assert.is_string(message)
  assert.equal(0, select("#", ...))
  return message
end

-- Calls |call| with the arguments |...| until its code is not "unavailable", and returns its
-- results. For calls whose time limit may be too short for etcd on a busy machine.
function M.answered(call, ...)
  local arguments, results = { ... }, nil
  wait.eventually(function()
    results = { call((table.unpack or unpack)(arguments)) }
    return results[3] ~= "unavailable", results[2]
  end, 5, "an answer of etcd")
  return (table.unpack or unpack)(results, 1, 3)
end

-- Fails unless |observer| has nothing to report for |seconds|.
function M.assert_unchanged(observer, seconds)
  M.assert_fails("timeout", M.answered(observer.next, observer, seconds))
end

-- Fails unless the results of a with_lock are those of a failure with |code| after its function has
-- run. Returns the message and the results of the function.
function M.assert_ran(code, ok, message, got, has_run, ...)
  M.assert_fails(code, ok, message, got)
  assert.is_true(has_run)
  return message, ...
end

return M
