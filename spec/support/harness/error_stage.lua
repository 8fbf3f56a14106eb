-- A stage for the rows of errors: an etcd that says what it is told to, one client
-- of it at a time, and what both files about them ask.

local Scripted = require "spec.support.servers.scripted"
local assert = require "luassert"
local clients = require "spec.support.harness.clients"
local etcdlock = require "etcdlock"
local rounds = require "spec.support.harness.rounds"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local Stage = {}
Stage.__index = Stage

-- How soon an answer comes that is known, how long we wait if there is one (LONG)
-- and if there is none, and how many requests may be made of that.
Stage.SOON, Stage.LONG, Stage.TIMEOUT, Stage.STORM = wait.SLACK, 5, 0.5, 10

-- A stage for keys with |prefix|. `server` is the scripted etcd, `client` the
-- latest client.
function Stage.new(prefix)
  return setmetatable({ prefix = prefix }, Stage)
end

function Stage:open()
  self.server = Scripted.start(suite.endpoint())
  self.beside = assert(etcdlock.connect { endpoints = suite.endpoint(), prefix = self.prefix })
end

-- Between tests.
function Stage:clear()
  self.server:pass()
  if self.client then self.client:close() end
end

-- What stands for busted's |it| for stories that have a client made for them: they count
-- what it asks, or look at once at what it has left. |meant| is as in rounds.
function Stage:undisturbed(it, meant)
  return function(name, story)
    it(name, function()
      rounds.undisturbed(function(timed) timed(story) end, function() self:clear() end, meant)
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
  self.client = assert(etcdlock.connect(all))
  return self.client
end

-- A client that has a lease already, and nothing to do.
function Stage:connect_idle()
  assert(self:connect():lock "first"):unlock()
  return self.client
end

-- A hold that has begun to watch its key and asks for nothing more for a while.
function Stage:hold(name)
  self:connect_idle()
  -- Somebody writes between the enqueue and the watch, so that there is one look after
  -- that was created, and what is scripted next isn't for it.
  self.server:hold_back "Txn"
  local pending = assert(self.client:lock_async(name))
  wait.eventually(function() return self.server:held "Txn" == 1 end, 5, "the enqueue")
  assert(self.beside:lock "beside"):unlock()
  local before = self.server:calls "Txn"
  self.server:tell "Txn"
  local lock = clients.granted(pending)
  wait.eventually(function() return self.server:calls "Txn" > before end, 5, "the look")
  return lock
end

-- A read that has nothing to find.
function Stage:look()
  return self.client:queue "looked-at"
end

-- ---- what is said ----

-- The next |times| calls (nil: all) of |method| end as |row| says; before etcd
-- knows of them, or after it has carried them out if that is possible.
function Stage:script(row, method, times)
  self.server:answer(method, row.definite and "before" or "after", row.number, row.says, times)
end

-- What a message has to say of |row|.
function Stage:text_of(row)
  return ("etcd %s: %s%s"):format(self.server.address, row.cause or row.says,
    row[5] and "; " .. row[5] or "")
end

-- A call returned what |row| says, in a message that begins with |where|.
function Stage:assert_told(row, where, ok, message, code)
  assert.is_nil(ok)
  assert.equal(where .. self:text_of(row), message)
  assert.equal(row[3], code)
end

-- |run| takes at least |low| and at most |high| seconds; returns what it does.
function Stage.within(low, high, run)
  local from = wait.now()
  local results = { run() }
  local took = wait.now() - from
  assert.is_true(took >= low and took <= high, ("took %.3f s"):format(took))
  return (table.unpack or unpack)(results)
end

-- ---- what is left ----

-- One that was granted without our knowledge is revoked.
function Stage.await_leases(count)
  wait.eventually(function()
    local leases = suite.etcd():leases()
    return #leases == count, table.concat(leases, " ")
  end, 5, count .. " leases")
end

-- Nothing is left of the lock |name|, and it can be had.
function Stage:assert_free(name)
  self.server:pass()
  suite.etcd():await_keys(self.prefix .. name, 0, 10)
  assert(self.client:lock(name, { timeout = self.LONG })):unlock()
end

return Stage
