-- The clients of a test, and what their calls answer.

local Scripted = require "spec.support.servers.scripted"
local assert = require "luassert"
local etcdlock = require "etcdlock"
local wait = require "spec.support.harness.wait"

local M = {}

-- A hold that is shorter is not watched: seconds.
M.UNWATCHED = 0.05

local open, kept, between = {}, {}, {}

-- |defaults| with |changes| (false: none) to them.
function M.with(defaults, changes)
  local opts = {}
  for name, value in pairs(defaults) do opts[name] = value end
  for name, value in pairs(changes or {}) do opts[name] = value or nil end
  return opts
end

-- connect(changes), for clients with these options (a table, or a function that
-- returns one). close_all ends them. With |changes.elsewhere| the client is to the
-- others as one of another program would be: waiting for each other is no deadlock.
function M.connector(defaults)
  return function(changes)
    local opts = type(defaults) == "function" and defaults() or defaults
    opts = M.with(opts, changes)
    local is_elsewhere = opts.elsewhere
    opts.elsewhere = nil
    local client = assert(etcdlock.connect(opts))
    if is_elsewhere then client._holds._members = {} end
    open[#open + 1] = client
    return client
  end
end

-- |lock|, which a test holds but doesn't name: dropped, it would be released.
function M.keep(lock)
  kept[#kept + 1] = lock
  return lock
end

-- What calls |call|, and is stopped there where etcd has answered what |client| asks in
-- it; returns the function by which it goes on.
function M.ask_and_stop(client, call)
  local ask = client._ask
  function client:_ask(...)
    local answer = { ask(self, ...) }
    client._ask = nil
    coroutine.yield()
    return (table.unpack or unpack)(answer, 1, 4)
  end
  local go_on = coroutine.wrap(call)
  go_on()
  assert.equal(ask, client._ask)
  return go_on
end

-- Has |lock|, of |client|, write |value| to |key| within |seconds|; returns what its end can
-- be waited for with.
function M.start_put(client, lock, key, value, seconds)
  local write = client._core:txn()
  write:guard_lock(lock._core)
  write:put(key, value)
  assert.is_true(write:start(seconds))
  return write
end

-- |write|, of start_put, ends, and nobody knows what became of it.
function M.assert_unheard(write)
  local ok, message, code, is_unwritten = write:wait(10)
  assert.is_false(ok)
  assert.equal("unavailable", code, message)
  assert.is_false(is_unwritten, message)
end

-- Waits until |client| asks nothing by itself for the next seconds, of |lock|, the only
-- one that it holds: the next request is the test's.
function M.await_watched(client, lock)
  local seen
  wait.eventually(function() return client:stats().watches > 0 end, 5, "the watch of the own key")
  wait.eventually(function()
    local before = seen
    for _ = 1, 5 do assert(client:ping()) end
    local stats = client:stats()
    seen = stats.watches + stats.looks
    return seen == before
  end, 5, "what is looked at once it is watched")
  assert.is_true(lock:check())
end

-- Waits until |server|, of scripted.lua, keeps what etcd has answered to a transaction of
-- |client|, who then hears something else: it gives that up when nothing comes for a while.
function M.await_held(server, client)
  wait.eventually(function() return server:held "Txn" == 1 end, 5, "what is answered late")
  assert(client:ping())
end

-- Does |run|, which takes locks and releases them, again until all was over so soon that none
-- of them was watched; returns what it returned then.
function M.briefly(run)
  local result
  wait.eventually(function()
    local from = wait.now()
    result = run()
    return wait.now() - from < M.UNWATCHED
  end, 5, "a hold that is too short for a watch")
  return result
end

-- What waits for |client| to have the lock |name| in |mode| ("read", "write"), for an
-- owner of its own unless |opts| name one.
function M.ask(client, mode, name, opts)
  return assert(client[mode .. "_lock_async"](client, name, M.with({ owner = {} }, opts)))
end

-- None of the waits |...| ends while every open client gets five answers of etcd's, which
-- is a time in which one whose turn it is would have ended.
function M.assert_wait(...)
  for _ = 1, 5 do
    for _, client in ipairs(open) do assert(client:ping()) end
  end
  for i, asked in ipairs { ... } do
    assert.is_false(asked:step(), "wait " .. i .. " is over")
  end
end

-- What becomes of the lock that was |asked| for (lock_async), once that is known.
function M.ended(asked)
  local lock, message, code
  wait.eventually(function()
    lock, message, code = asked:step()
    return lock ~= false
  end, 10, "granted, or refused")
  return lock, message, code
end

-- The lock that was |asked| for, once it is granted.
function M.granted(asked)
  return assert(M.ended(asked))
end

-- Of the two locks that were |asked| for one is granted, and the other one after it, with
-- a greater token.
function M.assert_one_after_the_other(asked)
  local first
  wait.eventually(function()
    first = first or asked[1]:step() and 1 or asked[2]:step() and 2
    return first
  end, 10, "one of them")
  M.assert_wait(asked[3 - first])
  local held = asked[first]:step()
  assert.is_true(held:unlock())
  local next_one = M.granted(asked[3 - first])
  assert.is_true(next_one:token() > held:token())
  assert.is_true(next_one:unlock())
end

-- The modes of those who hold |name| now, as |client| finds them in etcd.
function M.modes_held(client, name)
  local modes = {}
  for i, place in ipairs(assert(client:queue(name))) do
    modes[i] = place.held and place.mode or nil
  end
  return modes
end

-- A server of scripted.lua before the etcd at |endpoint|, for the clients of a test:
-- close_all stops it after them, who can end their leases so.
function M.scripted(endpoint)
  between[#between + 1] = Scripted.start(endpoint)
  return between[#between]
end

-- One before the etcd at |endpoint|, and a client with |options| that asks it.
function M.through_scripted(endpoint, options)
  local server = M.scripted(endpoint)
  return server, M.connector(options) { endpoints = server:endpoint() }
end

-- Nothing with |prefix| is left in |etcd| by what |use| does with a client, which it closes
-- at the end and returns when it began that: again where close has given up, after 0.5 s.
function M.assert_nothing_left(etcd, prefix, use)
  wait.eventually(function()
    local from = use()
    if wait.now() - from < 0.5 then
      assert.same({}, etcd:keys(prefix))
      assert.same({}, etcd:leases())
      return true
    end
    etcd:revoke_all()
  end, 5, "an end that etcd hears of in time")
end

-- For after_each.
function M.close_all()
  kept = {}
  for i = #open, 1, -1 do
    open[i]:close()
    open[i] = nil
  end
  for i = #between, 1, -1 do
    between[i]:stop()
    between[i] = nil
  end
end

-- What a call answered is a failure with |code|; returns its message.
function M.assert_fails(code, ok, message, got, ...)
  assert.is_nil(ok)
  assert.equal(code, got, message)
  assert.is_string(message)
  assert.equal(0, select("#", ...))
  return message
end

-- The same of a with_lock whose function has run; returns that, and its results.
function M.assert_ran(code, ok, message, got, has_run, ...)
  M.assert_fails(code, ok, message, got)
  assert.is_true(has_run)
  return message, ...
end

return M
