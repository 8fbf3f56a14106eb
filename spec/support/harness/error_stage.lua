-- Sets up the tests of error_rows.lua: a scripted etcd, one client of it at a time, and the helpers
-- and assertions that the spec files share.

local Scripted = require "spec.support.servers.scripted"
local assert = require "luassert"
local clients = require "spec.support.harness.clients"
local etcdlock = require "etcdlock"
local rounds = require "spec.support.harness.rounds"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local Stage = {}
Stage.__index = Stage

-- SOON: seconds within which a call returns if it does not wait for etcd. LONG: timeout of calls
-- that etcd answers. TIMEOUT: timeout of calls that etcd does not answer. STORM: the limit on the
-- number of requests that one call may send.
Stage.SOON, Stage.LONG, Stage.TIMEOUT, Stage.STORM = wait.SLACK, 5, 0.5, 10

-- Returns a stage whose clients use keys with |prefix|. Its field `server` is the scripted etcd,
-- `client` the latest client, `beside` a client that bypasses the scripted etcd.
function Stage.new(prefix)
  return setmetatable({ prefix = prefix }, Stage)
end

function Stage:open()
  self.server = Scripted.start(suite.endpoint())
  self.beside = assert(etcdlock.connect { endpoints = suite.endpoint(), prefix = self.prefix })
end

-- Ends the scripted answers and closes the latest client; for after_each.
function Stage:clear()
  self.server:pass()
  if self.client then self.client:close() end
end

-- Returns a function that defines a test like busted's |it|, but repeats the test if etcd was
-- silent for too long (see rounds.lua; |meant| as there). For tests that connect their own client
-- and count its requests, or check at once what it has left.
function Stage:undisturbed(it, meant)
  return function(name, test)
    it(name, function()
      rounds.undisturbed(function(timed) timed(test) end, function() self:clear() end, meant)
    end)
  end
end

function Stage:close()
  self.beside:close()
  self.server:stop()
end

-- ---- clients ----

function Stage:connect(opts)
  local all = { endpoints = self.server:endpoint(), prefix = self.prefix }
  for name, value in pairs(opts or {}) do all[name] = value end
  self.client, self.user = assert(etcdlock.connect(all)), all.user
  return self.client
end

-- Connects a client that has a lease, and no key and no request under way.
function Stage:connect_idle()
  assert(self:connect():lock "first"):unlock()
  return self.client
end

-- Connects a client and takes the lock |name|. Returns the lock when its key is watched and the
-- client will send no further request for a while.
function Stage:hold(name)
  self:connect_idle()
  -- `beside` writes between the enqueue and the watch. The client therefore sends one query after
  -- it has created the watch. This function waits for the query, which would otherwise take the
  -- next scripted answer.
  self.server:hold_back "Txn"
  local pending = assert(self.client:lock_async(name))
  wait.eventually(function() return self.server:held "Txn" == 1 end, 5, "the enqueue")
  assert(self.beside:lock "beside"):unlock()
  local before = self.server:calls "Txn"
  self.server:tell "Txn"
  local lock = clients.granted(pending)
  wait.eventually(function() return self.server:calls "Txn" > before end, 5, "the query")
  return lock
end

-- Queries an empty queue; results as those of client:queue.
function Stage:look()
  return self.client:queue "looked-at"
end

-- ---- scripted errors ----

-- Makes the next |times| calls (nil: all) of |method| fail as in |row|: before they reach etcd if
-- the error is definite, else after etcd has carried them out.
function Stage:script(row, method, times)
  self.server:answer(method, row.definite and "before" or "after", row.number, row.says, times)
end

-- Returns the text that a message must contain for |row|; |is_lock|: a message of a call that takes
-- or releases a lock.
function Stage:text_of(row, is_lock)
  local is_denied = row[3] == "denied"
  local user = is_denied and self.user and (' for user "%s"'):format(self.user) or ""
  local hint = is_denied and is_lock and "the user needs readwrite for the keys below this name"
    or row[5]
  return ("etcd %s: %s%s%s"):format(self.server.address, row.cause or row.says, user,
    hint and "; " .. hint or "")
end

-- Fails unless the results of a call are the failure of |row|, with a message that begins with
-- |where|, and with |expected| (the code of |row|). |is_lock|: as in text_of.
function Stage:assert_told(row, where, ok, message, code, expected, is_lock)
  assert.is_nil(ok)
  assert.equal(where .. self:text_of(row, is_lock), message)
  assert.equal(expected or row[3], code)
end

-- Fails unless |run| takes from |low| to |high| seconds. Returns the results of |run|.
function Stage.within(low, high, run)
  local from = wait.now()
  local results = { run() }
  local took = wait.now() - from
  -- a timeout of the client may end 1 ms early, because its clock counts milliseconds
  assert.is_true(took >= low - 0.001 and took <= high, ("took %.4f s"):format(took))
  return (table.unpack or unpack)(results, 1, 3)
end

-- ---- leases and keys ----

-- Waits until etcd has |count| leases: the client revokes a lease whose grant it did not learn of.
function Stage.await_leases(count)
  wait.eventually(function()
    local leases = suite.etcd():leases()
    return #leases == count, table.concat(leases, " ")
  end, 5, count .. " leases")
end

-- Fails unless no key of the lock |name| is left, and the client can take the lock.
function Stage:assert_free(name)
  self.server:pass()
  suite.etcd():await_keys(self.prefix .. name, 0, 10)
  assert(self.client:lock(name, { timeout = self.LONG })):unlock()
end

return Stage
